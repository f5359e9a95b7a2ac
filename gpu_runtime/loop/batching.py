"""A batch of completed episodes becomes the samples of one step: timelines, masks, advantages,
weights. And values of the samples' tokens become those of answers.

How groups are treated: every group here is full (exactly ``grpo_n`` episodes); partial groups and
surplus episodes wait outside for a later batch. A group in which nothing was rewarded otherwise
than anything else stays in: its advantages are zero, its episodes count as trained, and it is shown
as skipped. A batch of nothing else makes no step (learner.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_runtime.journal.records import CallRecord, Completion, EpisodeRecord, canonical_call_id
from gpu_runtime.journal.timelines import (
    Segment,
    Timeline,
    agents_of,
    allowed_of,
    by_token,
    experts_of,
    merge,
    trained_part,
)
from gpu_runtime.journal.token_values import AnswerKey, TokenValues
from gpu_runtime.loop.advantages import (
    call_advantages,
    length_terms,
    most_spread,
    overlong_penalty,
    returns_to_go,
    successes,
)
from gpu_runtime.loop.sample import Sample
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import WorkflowOutput


@dataclass(frozen=True)
class TrainedEpisode:
    """A completed episode with its calls.

    ``reference_gap`` is how far it is from the reference (reference_gaps.py), where the KL term is
    part of the reward; None where it is not, or was not computed yet. ``kept_advantages`` of its
    calls replace computed ones, where another episode of its batch was erased.
    """

    record: EpisodeRecord
    calls: tuple[CallRecord, ...]
    reference_gap: float | None = None
    kept_advantages: Mapping[str, float] | None = None

    @property
    def output(self) -> WorkflowOutput:
        """The output that the agent ended the episode with: reward, rewards by call, success."""
        assert self.record.output is not None, "only completed episodes are batched"
        return self.record.output

    @property
    def reward(self) -> float:
        """The reward of the whole episode."""
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


def batch_samples(batch: Batch, config: SessionConfig) -> list[Sample]:
    """The samples of a step, group by group, in an order that depends on the batch alone.

    Advantages compare episodes, not timelines: an episode with six timelines has one advantage. Its
    timelines count as one sequence of all its trained tokens: each weighs its part of them. Agents
    and calls that have rewards of their own: see ``advantages.py``.
    """
    advantages = batch_advantages(batch, config)
    return [
        sample
        for index, (group, advantages_G) in enumerate(zip(batch.groups, advantages, strict=True))
        for sample in _group_samples(group, index, advantages_G, config)
    ]


def samples_with_signal(batch: Batch, config: SessionConfig) -> list[Sample]:
    """The samples with something to learn; of none the batch makes no step."""
    samples = batch_samples(batch, config)
    trained = groups_trained(samples, config, batch.step)
    return [sample for sample in samples if sample.group in trained]


def groups_trained(samples: Sequence[Sample], config: SessionConfig, step: int) -> set[int]:
    """Of the groups of a batch, whose ``samples`` are all of it, those with a gradient.

    A group whose rewards are all equal has none but that of the KL term. In a session's first batch
    that is 0, since the policy is its reference (unless the session began from a state): a first
    batch of such groups alone makes no step. Left out, such a group also leaves the mean over
    episodes, as in DAPO's dynamic sampling (arXiv:2503.14476, 3.2).
    """
    groups = {sample.group for sample in samples}
    differ = {sample.group for sample in samples if sample.has_signal}
    return groups if config.has_kl_loss and (differ or step > 1) else differ


def answers_of(groups: Sequence[Group]) -> list[Completion]:
    """Every answer of a call that was completed."""
    return [
        answer
        for group in groups
        for episode in group.episodes
        for call in episode.calls
        if call.status == "completed"
        for answer in call.completions
    ]


def _group_samples(
    group: Group, index: int, advantages_G: Sequence[Mapping[str, float]], config: SessionConfig
) -> list[Sample]:
    samples = []
    is_thinned = config.keep_n is not None and group_has_signal(advantages_G)
    chosen = set(_kept(group, config)) if is_thinned else set(range(len(group.episodes)))
    for at, (episode, advantages) in enumerate(zip(group.episodes, advantages_G, strict=True)):
        # where another member was erased, advantages alone say who was kept
        known = episode.kept_advantages is None and at in chosen
        if is_thinned and not known and not any(advantages.values()):
            continue
        side = config.train_calls_without_tools
        kinds = {"with_truncated": not config.mask_truncated, "with_side": side}
        timelines = [
            (pieces, whole, trained_part(whole, pieces, **kinds))
            for pieces in agents_of(episode.calls).values()
            for whole in merge(pieces)
        ]
        tokens = sum(sum(timeline.mask_T) for *_, timeline in timelines)
        for pieces, whole, timeline in timelines:
            if trained := sum(timeline.mask_T):
                made = _sample(timeline, pieces, advantages, trained / tokens, index)
                samples.append(replace(made, experts_T=experts_of(whole, pieces)))
    return samples


def _sample(
    timeline: Timeline,
    pieces: Sequence[Segment],
    advantages: Mapping[str, float],
    weight: float,
    group: int,
) -> Sample:
    merged = [pieces[index] for index in timeline.segments]
    different = {advantages[piece.call_id] for piece in merged}
    by_advantage: list[float] | None = None
    if len(different) > 1:
        of_pieces = [[advantages[piece.call_id]] * len(piece.token_ids) for piece in merged]
        spread_T = by_token(timeline, merged, of_pieces, elsewhere=0.0)
        by_advantage = [
            advantage * mask for advantage, mask in zip(spread_T, timeline.mask_T, strict=True)
        ]
    temperatures = [[piece.temperature] * len(piece.token_ids) for piece in merged]
    is_tempered = any(piece.temperature != 1.0 for piece in merged)
    return Sample(
        token_ids_T=timeline.token_ids_T,
        mask_T=timeline.mask_T,
        logprobs_T=timeline.logprobs_T,
        advantage=math.fsum(by_advantage) / sum(timeline.mask_T)
        if by_advantage
        else different.pop(),
        weight=weight,
        group=group,
        advantages_T=tuple(by_advantage) if by_advantage else None,
        temperatures_T=tuple(by_token(timeline, merged, temperatures, elsewhere=1.0))
        if is_tempered
        else None,
        allowed_T=allowed_of(timeline, merged),
        call_ids=tuple(piece.call_id for piece in merged),
    )


def by_answer(
    batch: Batch, samples: Sequence[Sample], values_ST: Sequence[Sequence[float]]
) -> TokenValues:
    """Of each answer that a sample of ``batch`` trains the value of each token; None for one that
    is not trained. Of no answer where there are no values.
    """
    if not values_ST:
        return {}
    known = {call.id: call for episode in batch.episodes for call in episode.calls}
    found: dict[AnswerKey, tuple[float | None, ...]] = {}
    for sample, values_T in zip(samples, values_ST, strict=True):
        for call in (known[call_id] for call_id in dict.fromkeys(sample.call_ids)):
            start = len(call.prompt_ids_P)
            for answer in call.completions:
                end = start + len(answer.token_ids_T)
                mask = sample.mask_T[start:end]
                if any(mask) and sample.token_ids_T[start:end] == answer.token_ids_T:
                    values = zip(values_T[start:end], mask, strict=True)
                    found[call.id, answer.choice] = tuple(
                        value if trained else None for value, trained in values
                    )
    return found


def batch_advantages(batch: Batch, config: SessionConfig) -> list[list[dict[str, float]]]:
    """Of each group, of each of its episodes: the advantage of each call by its id."""
    if config.advantage_baseline != "batch":
        return [_group_advantages(group, config) for group in batch.groups]
    terms = [term for group in batch.groups for term in _length_terms(group, config)]
    of_all = iter(_advantages(batch.episodes, terms, config))
    return [[next(of_all) for _ in group.episodes] for group in batch.groups]


def group_has_signal(advantages_G: Sequence[Mapping[str, float]]) -> bool:
    """Whether any call of the group's episodes has an advantage."""
    return any(advantage for by_call in advantages_G for advantage in by_call.values())


def _group_advantages(group: Group, config: SessionConfig) -> list[dict[str, float]]:
    """With ``keep_n`` those that are left out have the advantage 0, and are in no mean."""
    terms, kept = _length_terms(group, config), _kept(group, config)
    chosen, of_chosen = [group.episodes[at] for at in kept], [terms[at] for at in kept]
    found = dict(zip(kept, _advantages(chosen, of_chosen, config), strict=True))
    none = [
        {call.id: 0.0 for call in it.calls if call.status == "completed"} for it in group.episodes
    ]
    return [
        found.get(at) or dict(episode.kept_advantages or none[at])
        for at, episode in enumerate(group.episodes)
    ]


def _kept(group: Group, config: SessionConfig) -> list[int]:
    """The places of the attempts that are trained: with ``keep_n`` those whose rewards, with what
    their lengths add and cost, differ most.
    """
    rewards = [
        episode.reward + term + _penalty(episode, [call.id for call in episode.calls], config)
        for episode, term in zip(group.episodes, _length_terms(group, config), strict=True)
    ]
    return most_spread(rewards, config.keep_n or len(rewards))


def _length_terms(group: Group, config: SessionConfig) -> list[float]:
    if not config.length_penalty or not group.episodes:
        return [0.0] * len(group.episodes)
    said = [episode.output.is_success for episode in group.episodes]
    lengths = [
        sum(len(answer.token_ids_T) for answer in answers_of([Group(group.key, (episode,))]))
        for episode in group.episodes
    ]
    succeeded = successes([episode.reward for episode in group.episodes], said)
    return [config.length_penalty * term for term in length_terms(lengths, succeeded)]


def _advantages(
    episodes: Sequence[TrainedEpisode], terms: Sequence[float], config: SessionConfig
) -> list[dict[str, float]]:
    """Of episodes that are compared with one another; ``terms`` are added to their rewards."""
    calls_G = [_calls_by_agent(episode.calls) for episode in episodes]
    advantages_G: list[dict[str, float]] = [{} for _ in episodes]
    for agent in {agent: None for calls in calls_G for agent in calls}:
        ids_G = [calls.get(agent, []) for calls in calls_G]
        by_index_G = call_advantages(
            [
                _reward(episode, agent)
                + term
                + _penalty(episode, ids, config)
                - _kl_of(episode, config)
                for episode, term, ids in zip(episodes, terms, ids_G, strict=True)
            ],
            [_returns(episode, ids, config) for episode, ids in zip(episodes, ids_G, strict=True)],
            normalize=config.divides_by_spread,
            leave_one_out=config.advantage_baseline == "leave_one_out",
        )
        for advantages, ids, by_index in zip(advantages_G, ids_G, by_index_G, strict=True):
            advantages.update(zip(ids, by_index, strict=True))
    return [
        computed if episode.kept_advantages is None else dict(episode.kept_advantages)
        for episode, computed in zip(episodes, advantages_G, strict=True)
    ]


def _calls_by_agent(calls: Sequence[CallRecord]) -> dict[str | None, list[str]]:
    """Ids in the order in which the calls began, which for parallel ones need not be that of the
    journal.
    """
    by_agent: dict[str | None, list[str]] = {}
    for call in sorted(calls, key=lambda call: call.begun_at):
        if call.status == "completed":
            by_agent.setdefault(call.agent, []).append(call.id)
    return by_agent


def _reward(episode: TrainedEpisode, agent: str | None) -> float:
    by_agent = episode.output.rewards_by_agent or {}
    return by_agent.get(agent, episode.reward) if agent is not None else episode.reward


def _kl_of(episode: TrainedEpisode, config: SessionConfig) -> float:
    """What a KL term in the reward takes away: Ouyang et al. 2022, arXiv:2203.02155, eq. 2."""
    return config.kl_coef * (episode.reference_gap or 0.0) if config.kl_in == "reward" else 0.0


def _returns(
    episode: TrainedEpisode, call_ids: Sequence[str], config: SessionConfig
) -> list[float | None]:
    named = {
        canonical_call_id(name): reward
        for name, reward in (episode.output.rewards_by_call or {}).items()
    }
    rewards = [
        named[call_id] + _penalty(episode, [call_id], config) if call_id in named else None
        for call_id in call_ids
    ]
    return returns_to_go(rewards, config.call_discount)


def _penalty(episode: TrainedEpisode, call_ids: Sequence[str], config: SessionConfig) -> float:
    """The greatest of the answers of these calls, each by its own call's limit.

    A call with a smaller limit has a smaller buffer, in proportion: else a short one would be
    penalised from its start.
    """
    if not config.overlong_buffer:
        return 0.0
    part = config.overlong_buffer / config.max_tokens
    return min(
        (
            overlong_penalty(
                len(answer.token_ids_T), limit, min(config.overlong_buffer, math.ceil(part * limit))
            )
            for call in episode.calls
            if call.id in call_ids
            for limit in [call.max_tokens or config.max_tokens]
            for answer in call.completions
        ),
        default=0.0,
    )
