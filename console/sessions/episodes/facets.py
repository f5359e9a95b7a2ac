"""What the episodes of a list are, counted by the database: rewards in buckets, fates, tasks."""

import math
import sys
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from django.db.models import Case, Count, F, FloatField, Max, Min, QuerySet, Sum, Value, When
from django.db.models.functions import Floor, Greatest, Least

from console.sessions.episodes.selectors import EpisodeFilter, episodes_matching
from console.sessions.models import EpisodeRecord
from console.sessions.selectors import session_get
from console.users.models import Project
from tinkerscript.wire.reading.facets import BUCKETS, MAX_TASKS, EpisodeFacets, RewardBucket, TaskCount, nine_digits
from tinkerscript.wire.reading.trajectories import EpisodeFate


def episode_facets(*, project: Project, session_id: str, only: EpisodeFilter) -> EpisodeFacets:
    """Counts of the episodes that match. Raises NotFound.

    The episodes are read twice: once for what there is of each task and fate, from which all counts follow, and once
    for the buckets, whose bounds are known by then. Where neither a text nor a version is asked for, the index
    ``episode_facets`` has all of it, in the order of the first reading.
    """
    session = session_get(project=project, session_id=session_id)
    matching = episodes_matching(session, replace(only, fates=(), task=None))
    counted = [_Part(*row) for row in matching.order_by().values_list("task", "fate", "eval").annotate(**_OF_A_PART)]
    of_task = [part for part in counted if only.task is None or part.task == only.task]
    of_fate = [part for part in counted if not only.fates or part.fate in only.fates]
    shown = [part for part in of_task if not only.fates or part.fate in only.fates]
    fates, tasks = _counts(of_task, "fate"), _counts(of_fate, "task")
    if only.fates:
        matching = matching.filter(fate__in=only.fates)
    if only.task is not None:
        matching = matching.filter(task=only.task)
    by_count = sorted(tasks.items(), key=lambda each: (-each[1], each[0]))
    return EpisodeFacets(
        episodes=sum(part.episodes for part in shown),
        rewards=_buckets(matching, shown),
        reward_mean=_mean(shown),
        fates={EpisodeFate(fate): count for fate, count in fates.items()},
        evaluation=sum(part.episodes for part in shown if part.eval),
        tasks=[TaskCount(task=task, count=count) for task, count in by_count[:MAX_TASKS]],
        tasks_in_all=len(tasks),
    )


class _Part(NamedTuple):
    """The matching episodes of one task and fate. ``lowest`` and ``highest`` are None where none has a reward."""

    task: str | None
    fate: str
    eval: bool
    episodes: int
    rewards: int
    lowest: float | None
    highest: float | None
    scaled: float | None  # their sum, as ``_divided`` by SCALE


SCALE = 2.0**70  # exact to divide by; a sum of fewer rewards than that is no number that is too large
LEAST = 1e-290  # a quotient below it shows in no bucket and no mean


def _divided(by: float) -> Case:
    """The reward divided by a number; 0 in place of what PostgreSQL refuses as too small a number."""
    least = by * LEAST
    return Case(
        When(reward__gt=-least, reward__lt=least, then=Value(0.0)),
        default=F("reward") / Value(by),
        output_field=FloatField(),
    )


# No average: PostgreSQL adds up squares for it, which may be too large a number.
_OF_A_PART = {
    "episodes": Count("id"), "rewards": Count("reward"), "lowest": Min("reward"), "highest": Max("reward"),
    "scaled": Sum(_divided(SCALE)),
}  # fmt: skip


def _counts(parts: list[_Part], name: str) -> dict[str, int]:
    """Episodes by task or fate. Those without a task are left out."""
    counts: Counter[str] = Counter()
    for part in parts:
        if (value := getattr(part, name)) is not None:
            counts[value] += part.episodes
    return dict(counts)


def _mean(parts: list[_Part]) -> float | None:
    """Of all rewards: between them, also where rounding takes it beyond the largest number."""
    sums = [part.scaled for part in parts if part.scaled is not None]
    if not sums:
        return None
    mean = math.fsum(sums) / sum(part.rewards for part in parts) * SCALE
    return nine_digits(max(-sys.float_info.max, min(mean, sys.float_info.max)))


def _buckets(matching: QuerySet[EpisodeRecord], parts: list[_Part]) -> list[RewardBucket]:
    """Buckets of equal width. Each value is divided before it is subtracted: a difference may be too large a number."""
    rewarded = [(part.lowest, part.highest) for part in parts if part.lowest is not None and part.highest is not None]
    if not rewarded:
        return []
    lowest, highest = min(low for low, _ in rewarded), max(high for _, high in rewarded)
    width = highest / BUCKETS - lowest / BUCKETS
    at: Value | Greatest = Value(0.0)
    if width > 0:
        number = Floor(_divided(width) - Value(lowest / width), output_field=FloatField())
        at = Greatest(Value(0.0), Least(number, Value(BUCKETS - 1.0)), output_field=FloatField())
    # Those without a reward are left out of what was counted: as a filter that leads SQLite to the index of rewards,
    # whose order is none of the table's.
    rows = matching.order_by().annotate(bucket=Case(When(reward__isnull=False, then=at), output_field=FloatField()))
    counted = (
        rows.values("bucket").annotate(low=Min("reward"), high=Max("reward"), count=Count("id")).order_by("bucket")
    )
    return [
        RewardBucket(lowest=row["low"], highest=row["high"], count=row["count"])
        for row in counted
        if row["bucket"] is not None
    ]
