"""The ``EpisodeRow`` (``tinkerscript.wire.reading.trajectories``) of a journal's record and its
calls.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_runtime.journal.records import CallRecord, EpisodeRecord, plain
from gpu_runtime.loop.batching import Batch, batch_advantages
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import EpisodeState, RefusedCalls
from tinkerscript.wire.reading.trajectories import EXCERPT_CHARACTERS, EpisodeFate, EpisodeRow
from tinkerscript.wire.training.engine_correction import ratios_count

MAX_METRICS = 50  # of a row, by name; the archive has all
MAX_AGENTS, MAX_REASON = 100, 2000
MAX_ADVANTAGES = 500  # calls of an episode whose advantages a row names


def episode_row(
    record: EpisodeRecord,
    calls: Sequence[CallRecord],
    advantages: Mapping[str, float] | None,
    refused: RefusedCalls | None = None,
) -> EpisodeRow:
    """``advantages`` are those of its calls, once it is trained; ``refused`` what was refused of
    them."""
    output, report = record.output, record.report or {}
    values = list((advantages or {}).values())
    named = advantages if len(set(values)) > 1 and len(values) <= MAX_ADVANTAGES else None
    return EpisodeRow(
        episode_id=record.id,
        seq=record.seq,
        task=plain(record.task),
        group_key=plain(record.group_key),
        eval=record.eval,
        fate=fate_of(record),
        reason=plain(record.reason or "")[:MAX_REASON],
        reward=output.reward if output else None,
        is_success=output.is_success if output else None,
        rewards_by_agent=_named(output.rewards_by_agent)
        if output and output.rewards_by_agent
        else None,
        metrics=_named(output.measures) if output else {},
        agents=[plain(agent)[:EXCERPT_CHARACTERS] for agent in report.get("agents", [])][
            :MAX_AGENTS
        ],
        calls=record.calls,
        sampled_tokens=record.sampled_tokens,
        timelines=report.get("timelines"),
        drift=len(report.get("drift", [])),
        policy_version_first=record.version_first,
        policy_version_last=record.version_last,
        trained_step=record.trained_step,
        advantage=math.fsum(values) / len(values) if values else None,
        advantages=dict(named) if named else None,
        logprob_mean=_logprob_mean(calls),
        ratio_counts=_ratio_counts(calls),
        prompt=_prompt(calls),
        answer=_answer(calls),
        refused=_refused(refused),
        begun_at=record.begun_at,
        deadline_at=record.deadline_at,
        ended_at=record.ended_at,
    )


def step_advantages(batch: Batch | None, config: SessionConfig) -> dict[str, dict[str, float]]:
    """The advantages with which a step trained its episodes, computed again from its batch.

    By episode: the advantage of each call. Empty for a step without a batch.
    """
    if batch is None:
        return {}
    return {
        episode.record.id: advantages
        for group, advantages_G in zip(batch.groups, batch_advantages(batch, config), strict=True)
        for episode, advantages in zip(group.episodes, advantages_G, strict=True)
    }


def fate_of(record: EpisodeRecord) -> EpisodeFate:
    """Where the episode is in the accounting."""
    if record.state is not EpisodeState.COMPLETED:
        return EpisodeFate(record.state)
    return EpisodeFate(record.fate) if record.fate else EpisodeFate.WAITING


def _logprob_mean(calls: Sequence[CallRecord]) -> float | None:
    sampled = [
        answer for call in calls if call.status == "completed" for answer in call.completions
    ]
    count = sum(len(answer.logprobs_T) for answer in sampled)
    total = math.fsum(value for answer in sampled for value in answer.logprobs_T)
    return total / count if count and math.isfinite(total) else None


def _ratio_counts(calls: Sequence[CallRecord]) -> list[int] | None:
    answers = [answer for call in calls for answer in call.completions if answer.trainer_logprobs_T]
    return ratios_count(
        trainer - sampled
        for answer in answers
        for trainer, sampled in zip(answer.trainer_logprobs_T, answer.logprobs_T, strict=True)
        if trainer is not None
    )


def _refused(refused: RefusedCalls | None) -> RefusedCalls | None:
    if refused is None:
        return None
    last = [call.model_copy(update={"message": plain(call.message)}) for call in refused.last]
    return refused.model_copy(update={"last": last})


def _prompt(calls: Sequence[CallRecord]) -> str:
    messages = calls[0].messages if calls else ()
    return plain(_content(messages[-1]))[-EXCERPT_CHARACTERS:] if messages else ""


def _answer(calls: Sequence[CallRecord]) -> str:
    answers = [
        answer for call in calls if call.status == "completed" for answer in call.completions[:1]
    ]
    return plain(answers[-1].text[: 2 * EXCERPT_CHARACTERS])[:EXCERPT_CHARACTERS] if answers else ""


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):  # parts: text, images
        return " ".join(
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return content if isinstance(content, str) else ""


def _named(values: Mapping[str, float]) -> dict[str, float]:
    return {plain(name): value for name, value in list(values.items())[:MAX_METRICS]}
