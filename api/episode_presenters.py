"""Reported episodes as the wire shows them."""

import statistics
from collections.abc import Iterable, Mapping

from console.sessions.episodes.models import EpisodeAnnotation
from console.sessions.episodes.selectors import Group, Step
from console.sessions.models import EpisodeRecord
from tinkerscript.wire.episodes import EpisodeAnnotation as EpisodeAnnotationView
from tinkerscript.wire.episodes import (
    EpisodeList,
    EpisodeState,
    EpisodeView,
    RefusedCalls,
    SampleFate,
    Thumb,
)
from tinkerscript.wire.events import Event, EventKind
from tinkerscript.wire.reading.trajectories import EpisodeFate, GroupList, GroupView, StepView

SAME_NAME = (
    "episode_id", "task", "group_key", "eval", "reward", "is_success", "metrics", "rewards_by_agent", "calls",
    "sampled_tokens", "timelines", "policy_version_first", "policy_version_last", "trained_step", "begun_at",
    "deadline_at", "ended_at", "drift", "advantage", "logprob_mean", "ratio_counts", "prompt",
    "answer",
)  # fmt: skip
NOT_COMPLETED = {EpisodeFate.OPEN, EpisodeFate.ABANDONED, EpisodeFate.EXPIRED}


def annotation_view(row: EpisodeAnnotation) -> EpisodeAnnotationView:
    """What one person says of an episode."""
    return EpisodeAnnotationView(
        episode_id=row.episode_id,
        by=row.person.email if row.person else "",
        thumb=Thumb(row.thumb) if row.thumb else None,
        comment=row.comment,
        at=row.at,
    )


def episode_view(
    record: EpisodeRecord, annotations: Iterable[EpisodeAnnotation] = ()
) -> EpisodeView:
    """One episode as it was last reported."""
    fate = EpisodeFate(record.fate)
    refused = RefusedCalls.model_validate(record.refused) if record.refused else None
    return EpisodeView(
        **{name: getattr(record, name) for name in SAME_NAME},
        state=EpisodeState(fate) if fate in NOT_COMPLETED else EpisodeState.COMPLETED,
        fate=_sample_fate(fate),
        reason=record.reason or None,
        agents=[label for label in record.agents.split("|") if label],
        has_tokens=record.pack_id is not None,
        refused=refused,
        warning=refused.sentence if refused else None,
        annotations=[annotation_view(row) for row in annotations],
    )


def episode_list_view(
    records: list[EpisodeRecord],
    annotations: Mapping[str, list[EpisodeAnnotation]],
    next_cursor: str | None,
) -> EpisodeList:
    """One page of episodes, with what is said of each."""
    items = [episode_view(record, annotations.get(record.episode_id, ())) for record in records]
    return EpisodeList(items=items, next_cursor=next_cursor)


def group_view(group: Group) -> GroupView:
    """A group with its episodes."""
    rewards = [episode.reward for episode in group.episodes if episode.reward is not None]
    # Rewards of single calls can differ where those of the episodes are equal: then there is an
    # advantage.
    differs = len(set(rewards)) > 1 or any(episode.advantages for episode in group.episodes)
    return GroupView(
        group_key=group.key,
        task=group.episodes[0].task,
        step=group.step,
        count=len(group.episodes),
        reward_mean=statistics.fmean(rewards) if rewards else None,
        reward_std=statistics.pstdev(rewards) if rewards else None,
        has_signal=differs,
        episodes=[episode_view(episode) for episode in group.episodes],
    )


def group_list_view(groups: list[Group], next_cursor: int | None) -> GroupList:
    """One page of groups."""
    return GroupList(
        items=[group_view(group) for group in groups],
        next_cursor=str(next_cursor) if next_cursor is not None else None,
    )


def step_view(step: Step) -> StepView:
    """A step with its groups."""
    return StepView(
        step=step.number,
        metrics=step.metric.data if step.metric else None,
        at=step.metric.at.isoformat() if step.metric else None,
        refused=[
            Event(cursor=each.id, kind=EventKind(each.kind), at=each.at, data=each.data)
            for each in step.refused
        ],
        groups=[group_view(group) for group in step.groups],
        previous=step.previous,
        next=step.next,
    )


def _sample_fate(fate: EpisodeFate) -> SampleFate | None:
    if fate in NOT_COMPLETED:
        return None
    return SampleFate.ACCEPTED if fate is EpisodeFate.WAITING else SampleFate(fate)
