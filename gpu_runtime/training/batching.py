"""A batch of completed episodes becomes the samples of one step: timelines, masks, advantages, weights.

How groups are treated: every group here is full (exactly ``grpo_n`` episodes); partial groups and surplus episodes wait
outside for a later batch. A group whose rewards are all equal stays in: its advantages are zero, its episodes count as
trained, and it is shown as skipped.
"""

import statistics
from dataclasses import dataclass

from gpu_runtime.gateway.timelines import agents_of, merge
from gpu_runtime.interfaces import Sample
from gpu_runtime.journal_records import CallRecord, EpisodeRecord
from gpu_runtime.training.grpo import agent_advantages


@dataclass(frozen=True)
class TrainedEpisode:
    """A completed episode with its calls."""

    record: EpisodeRecord
    calls: tuple[CallRecord, ...]

    @property
    def reward(self) -> float:
        """What the agent reported."""
        assert self.record.output is not None, "only completed episodes are batched"
        return self.record.output.reward


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
    timelines weighs one sixth.
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
        "groups_skipped": sum(len({episode.reward for episode in group.episodes}) == 1 for group in batch.groups),
        "staleness_max": batch.policy_version - min(oldest, default=batch.policy_version),
        "completion_length_mean": statistics.fmean(lengths) if lengths else 0.0,
    }


def _group_samples(group: Group, index: int, *, normalize: bool) -> list[Sample]:
    outputs = [episode.record.output for episode in group.episodes]
    pieces_G = [agents_of(episode.calls) for episode in group.episodes]
    agents = sorted({agent for pieces in pieces_G for agent in pieces if agent is not None})
    advantages = agent_advantages(
        [episode.reward for episode in group.episodes],
        [output.rewards_by_agent if output else None for output in outputs],
        agents,
        normalize=normalize,
    )
    samples = []
    for member, by_agent in enumerate(pieces_G):
        timelines = [(agent, timeline) for agent, pieces in by_agent.items() for timeline in merge(pieces)]
        samples += [
            Sample(
                token_ids_T=timeline.token_ids_T,
                mask_T=timeline.mask_T,
                logprobs_T=timeline.logprobs_T,
                advantage=advantages[agent][member],
                weight=1.0 / len(timelines),
                group=index,
            )
            for agent, timeline in timelines
        ]
    return samples
