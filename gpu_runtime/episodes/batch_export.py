"""A batch as JSON lines (``tinkerscript.wire.reading.batches``), built from the journal."""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from gpu_runtime.journal.records import CallRecord, Completion
from gpu_runtime.journal.token_values import sets_number
from gpu_runtime.loop.batching import Batch, TrainedEpisode, batch_samples, groups_trained
from gpu_runtime.loop.sample import Sample
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.events import StepMetrics
from tinkerscript.wire.reading.batches import BatchEpisode, BatchHeader, BatchSample
from tinkerscript.wire.runtime import Assignment

from .call_views import episode_calls

KeptState = Literal["trained", "refused", "journaled"]
Value = TypeVar("Value", int, float)


@dataclass(frozen=True)
class KeptBatch:
    """A batch and what became of it."""

    name: str
    batch: Batch
    config: SessionConfig  # of its step
    state: KeptState
    reason: str = ""
    metrics: dict[str, Any] | None = None


def batch_lines(kept: KeptBatch, assignment: Assignment) -> Iterator[bytes]:
    """The lines, each with its end. The samples are made by the function that makes them for the
    trainer.
    """
    batch, config = kept.batch, kept.config
    samples = batch_samples(batch, config)
    trained = groups_trained(samples, config, batch.step)
    yield _line(
        BatchHeader(
            name=kept.name,
            session_id=assignment.session_id,
            base_model=assignment.base_model,
            step=batch.step,
            state=kept.state,
            reason=kept.reason,
            policy_version=batch.policy_version,
            seed=config.seed,
            config=config,
            metrics=StepMetrics.model_validate(kept.metrics) if kept.metrics else None,
            groups=len(batch.groups),
            episodes=len(batch.episodes),
            samples=len(samples),
        )
    )
    for index, group in enumerate(batch.groups):
        for episode in group.episodes:
            yield _line(_episode(episode, index))
    owners = {
        call.id: (episode.record.id, call) for episode in batch.episodes for call in episode.calls
    }
    for sample in samples:
        yield _line(_sample(sample, owners, in_gradient=sample.group in trained))


def _episode(episode: TrainedEpisode, group: int) -> BatchEpisode:
    record = episode.record
    return BatchEpisode(
        group=group,
        episode_id=record.id,
        task=record.task,
        group_key=record.group_key,
        output=episode.output,
        begun_at=record.begun_at,
        ended_at=record.ended_at,
        calls=episode_calls(episode.calls, start=0, limit=len(episode.calls)).items,
    )


def _sample(
    sample: Sample, owners: dict[str, tuple[str, CallRecord]], *, in_gradient: bool
) -> BatchSample:
    calls = list(dict.fromkeys(sample.call_ids))
    records = [owners[call][1] for call in calls]
    positions = range(len(sample.token_ids_T))
    numbers_T, sets = sets_number(sample.allowed_T or (None,) * len(positions))
    return BatchSample(
        group=sample.group,
        episode_id=owners[calls[0]][0],
        calls=calls,
        token_ids=list(sample.token_ids_T),
        mask=list(sample.mask_T),
        logprobs=list(sample.logprobs_T),
        raw_logprobs=_of_answers(sample, records, CallRecord.raw_of, elsewhere=0.0),
        trainer_logprobs=_of_answers(
            sample, records, lambda _, answer: answer.trainer_logprobs_T or None, elsewhere=0.0
        ),
        trainer_logprobs_after=_of_answers(
            sample,
            records,
            lambda _, answer: answer.trainer_logprobs_after_T or None,
            elsewhere=0.0,
        ),
        temperatures=[sample.temperature_at(t) if sample.mask_T[t] else 1.0 for t in positions],
        allowed=numbers_T,
        allowed_sets=[base64.b64encode(each).decode() for each in sets],
        experts=[
            None if each is None else base64.b64encode(each).decode()
            for each in sample.experts_T or ()
        ],
        policy_versions=_of_answers(
            sample, records, lambda _, answer: answer.versions_T, elsewhere=-1
        ),
        advantages=[sample.advantage_at(t) if sample.mask_T[t] else 0.0 for t in positions],
        weight=sample.weight,
        in_gradient=in_gradient,
    )


def _of_answers(
    sample: Sample,
    calls: Sequence[CallRecord],
    values: Callable[[CallRecord, Completion], Sequence[Value | None] | None],
    *,
    elsewhere: Value,
) -> list[Any]:
    """A value for each trained token, from the answer whose tokens are at its position; None where
    it has none.
    """
    found: list[Value | None] = [elsewhere] * len(sample.token_ids_T)
    for call in calls:
        start = len(call.prompt_ids_P)
        for answer in call.completions:
            end = start + len(answer.token_ids_T)
            if sample.token_ids_T[start:end] == answer.token_ids_T and any(
                sample.mask_T[start:end]
            ):
                of_answer = values(call, answer)
                found[start:end] = [None] * (end - start) if of_answer is None else list(of_answer)
    return [value if mask else elsewhere for value, mask in zip(found, sample.mask_T, strict=True)]


def _line(model: BaseModel) -> bytes:
    return model.model_dump_json().encode() + b"\n"
