"""A batch of completed episodes becomes the samples of one step: timelines, masks, advantages, weights.

How groups are treated: every group here is full (exactly ``grpo_n`` episodes); partial groups and surplus episodes wait
outside for a later batch. A group in which nothing was rewarded otherwise than anything else stays in: its advantages
are zero, its episodes count as trained, and it is shown as skipped.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_runtime.gateway.call_ids import call_of
from gpu_runtime.gateway.timelines import Piece, Timeline, agents_of, merge
from gpu_runtime.interfaces import Sample
from gpu_runtime.journal_records import CallRecord, EpisodeRecord
from gpu_runtime.training.grpo import call_advantages
from tinkerscript.wire.episodes import WorkflowOutput


@dataclass(frozen=True)
class TrainedEpisode:
    """A completed episode with its calls."""

    record: EpisodeRecord
    calls: tuple[CallRecord, ...]

    @property
    def output(self) -> WorkflowOutput:
        """What the agent reported."""
        assert self.record.output is not None, "only completed episodes are batched"
        return self.record.output

    @property
    def reward(self) -> float:
        """Of the whole episode."""
        return self.output.reward


@dataclass(frozen=True)
class Group:
    """Episodes that share a baseline, in the order in which they began."""

    key: str
    episodes: tuple[TrainedEpisode, ...]


@dataclass(frozen=True)
class Batch:
    """What one step trains. ``policy_version`` is the version served when the batch was fixed."""

    step: int
    policy_version: int
    groups: tuple[Group, ...]

    @property
    def episodes(self) -> list[TrainedEpisode]:
        """All of them, in training order."""
        return [episode for group in self.groups for episode in group.episodes]


def batch_samples(batch: Batch, *, normalize: bool) -> list[Sample]:
    """The samples of a step, group by group, in an order that depends on the batch alone.

    Advantages compare episodes, not timelines: an episode with six timelines has one advantage, and each of its
    timelines weighs one sixth. Agents and calls that have rewards of their own: see ``training/grpo.py``.
    """
    return [
        sample
        for index, group in enumerate(batch.groups)
        for sample in _group_samples(group, index, normalize=normalize)
    ]


def batch_statistics(batch: Batch) -> dict[str, float]:
    """The part of StepMetrics that needs no gradient: rewards, counts, lengths, staleness."""
    rewards = [episode.reward for episode in batch.episodes]
    lengths = [
        len(answer.token_ids_T)
        for episode in batch.episodes
        for call in episode.calls
        if call.status == "completed"
        for answer in call.completions
    ]
    oldest = [episode.record.version_first for episode in batch.episodes if episode.record.version_first is not None]
    return {
        "reward_mean": statistics.fmean(rewards),
        "reward_std": statistics.pstdev(rewards),
        "episodes": len(rewards),
        "groups": len(batch.groups),
        "groups_skipped": sum(_says_nothing(group) for group in batch.groups),
        "staleness_max": batch.policy_version - min(oldest, default=batch.policy_version),
        "completion_length_mean": statistics.fmean(lengths) if lengths else 0.0,
    }


def _says_nothing(group: Group) -> bool:
    return not any(advantage for by_call in _advantages(group, normalize=False) for advantage in by_call.values())


def _group_samples(group: Group, index: int, *, normalize: bool) -> list[Sample]:
    samples = []
    for episode, advantages in zip(group.episodes, _advantages(group, normalize=normalize), strict=True):
        timelines = [(pieces, timeline) for pieces in agents_of(episode.calls).values() for timeline in merge(pieces)]
        weight = 1.0 / max(1, len(timelines))
        samples += [_sample(timeline, pieces, advantages, weight, index) for pieces, timeline in timelines]
    return samples


def _sample(
    timeline: Timeline, pieces: Sequence[Piece], advantages: Mapping[str, float], weight: float, group: int
) -> Sample:
    merged = [pieces[index] for index in timeline.pieces]
    different = {advantages[piece.call_id] for piece in merged}
    by_token: list[float] | None = None
    if len(different) > 1:
        by_token = [0.0] * len(timeline.token_ids_T)
        for piece in merged:
            start, length = len(piece.prompt_ids), len(piece.token_ids)
            by_token[start : start + length] = [advantages[piece.call_id]] * length
    return Sample(
        token_ids_T=timeline.token_ids_T,
        mask_T=timeline.mask_T,
        logprobs_T=timeline.logprobs_T,
        advantage=math.fsum(by_token) / sum(timeline.mask_T) if by_token else different.pop(),
        weight=weight,
        group=group,
        advantages_T=tuple(by_token) if by_token else None,
        call_ids=tuple(piece.call_id for piece in merged),
    )


def _advantages(group: Group, *, normalize: bool) -> list[dict[str, float]]:
    """The advantage of each call by its id, for each episode of the group."""
    calls_G = [_calls_by_agent(episode.calls) for episode in group.episodes]
    advantages_G: list[dict[str, float]] = [{} for _ in group.episodes]
    for agent in {agent: None for calls in calls_G for agent in calls}:
        ids_G = [calls.get(agent, []) for calls in calls_G]
        rewards_G = [_reward(episode, agent) for episode in group.episodes]
        named_G = [_named(episode, ids) for episode, ids in zip(group.episodes, ids_G, strict=True)]
        by_place_G = call_advantages(rewards_G, named_G, normalize=normalize)
        for advantages, ids, by_place in zip(advantages_G, ids_G, by_place_G, strict=True):
            advantages.update(zip(ids, by_place, strict=True))
    return advantages_G


def _calls_by_agent(calls: Sequence[CallRecord]) -> dict[str | None, list[str]]:
    """Ids in the order in which the calls began, which for parallel ones need not be that of the journal."""
    by_agent: dict[str | None, list[str]] = {}
    for call in sorted(calls, key=lambda call: call.begun_at):
        if call.status == "completed":
            by_agent.setdefault(call.agent, []).append(call.id)
    return by_agent


def _reward(episode: TrainedEpisode, agent: str | None) -> float:
    by_agent = episode.output.rewards_by_agent or {}
    return by_agent.get(agent, episode.reward) if agent is not None else episode.reward


def _named(episode: TrainedEpisode, call_ids: Sequence[str]) -> list[float | None]:
    rewards = {call_of(name): reward for name, reward in (episode.output.rewards_by_call or {}).items()}
    return [rewards.get(call_id) for call_id in call_ids]
