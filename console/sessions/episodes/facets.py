"""What the episodes of a list are, counted by the database: rewards in buckets, fates, tasks; and
each task as it was played nearest to two versions of the policy.
"""

import math
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from django.db.models import Case, Count, F, FloatField, Max, Min, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Floor, Greatest, Least

from console.sessions.episodes.one_reading import LEAST, SCALE, TaskFate, Totals, count_once
from console.sessions.episodes.selectors import EpisodeFilter, episodes_matching
from console.sessions.models import EpisodeRecord
from console.sessions.selectors import session_get
from console.users.models import Project
from tinkerscript.wire.reading.facets import (
    BUCKETS,
    MAX_TASKS,
    REACHES,
    EpisodeFacets,
    NearestPlays,
    Play,
    RewardBucket,
    TaskCount,
    nearest_plays,
    reward_buckets,
)
from tinkerscript.wire.reading.trajectories import EpisodeFate


def episode_facets(*, project: Project, session_id: str, only: EpisodeFilter) -> EpisodeFacets:
    """Counts of the episodes that match. Raises NotFound.

    The episodes are read twice: once for what there is of each task and fate, from which all counts
    follow, and once for the buckets, whose bounds are known by then. The index ``episode_facets``
    has all of it, in the order of the first reading; where it has not, because a text, an agent or
    a version is asked for, rows are read, and once.
    """
    session = session_get(project=project, session_id=session_id)
    matching = episodes_matching(session, replace(only, fates=(), task=None))
    by_rows = only.text or only.metrics or only.agent is not None or only.version is not None
    count = count_once if by_rows else _count_by_index
    parts, totals, by_reward = count(matching, fates=only.fates, task=only.task)
    of_task = {key: n for key, n in parts.items() if only.task is None or key[0] == only.task}
    of_fate = {key: n for key, n in parts.items() if not only.fates or key[1] in only.fates}
    fates, tasks = _sums(of_task, 1), _sums(of_fate, 0)
    if only.fates:
        matching = matching.filter(fate__in=only.fates)
    if only.task is not None:
        matching = matching.filter(task=only.task)
    by_count = sorted(tasks.items(), key=lambda each: (-each[1], each[0]))
    return EpisodeFacets(
        episodes=sum(n for key, n in of_task.items() if key in of_fate),
        rewards=_buckets(matching, totals) if by_reward is None else reward_buckets(by_reward),
        reward_mean=None if totals.scaled is None else mean(totals.scaled, totals.rewards),
        fates={EpisodeFate(fate): count for fate, count in fates.items()},
        evaluation=totals.evaluation,
        tasks=[TaskCount(task=task, count=count) for task, count in by_count[:MAX_TASKS]],
        tasks_in_all=len(tasks),
    )


def divided(by: float) -> Case:
    """The reward divided by a number; 0 in place of what PostgreSQL refuses as too small a
    number.
    """
    least = by * LEAST
    return Case(
        When(reward__gt=-least, reward__lt=least, then=Value(0.0)),
        default=F("reward") / Value(by),
        output_field=FloatField(),
    )


# No average: PostgreSQL adds up squares for it, which may be too large a number.
# "*", not a column that no index of these has: PostgreSQL would read the rows for it.
_OF_A_PART = {
    "episodes": Count("*"), "rewards": Count("reward"), "lowest": Min("reward"), "highest": Max("reward"),
    "scaled": Sum(divided(SCALE)),
}  # fmt: skip


def _count_by_index(
    matching: QuerySet[EpisodeRecord], *, fates: Collection[EpisodeFate], task: str | None
) -> tuple[dict[TaskFate, int], Totals, None]:
    """As ``count_once``, without the rewards one by one."""
    parts: Counter[TaskFate] = Counter()
    shown = []
    for of_task, fate, is_eval, episodes, *stats in (
        matching.order_by().values_list("task", "fate", "eval").annotate(**_OF_A_PART)
    ):
        parts[of_task, fate] += episodes
        if (task is None or of_task == task) and (not fates or fate in fates):
            shown.append(Totals(episodes if is_eval else 0, *stats))
    rewarded = [
        (part.lowest, part.highest)
        for part in shown
        if part.lowest is not None and part.highest is not None
    ]
    sums = [part.scaled for part in shown if part.scaled is not None]
    totals = Totals(
        evaluation=sum(part.evaluation for part in shown),
        rewards=sum(part.rewards for part in shown),
        lowest=min((low for low, _ in rewarded), default=None),
        highest=max((high for _, high in rewarded), default=None),
        scaled=math.fsum(sums) if sums else None,
    )
    return parts, totals, None


def _sums(parts: Mapping[TaskFate, int], at: int) -> dict[str, int]:
    """Episodes by task (0) or fate (1). Those without a task are left out."""
    counts: Counter[str] = Counter()
    for key, n in parts.items():
        if (value := key[at]) is not None:
            counts[value] += n
    return dict(counts)


def mean(scaled: float, rewards: int) -> float:
    """Of so many rewards, by the sum of each divided by SCALE: also where rounding takes it beyond
    the largest number.

    To nine digits, so that it is the same number whoever adds up, and in which order.
    """
    found = scaled / rewards * SCALE
    return float(f"{max(-sys.float_info.max, min(found, sys.float_info.max)):.9g}")


def _buckets(matching: QuerySet[EpisodeRecord], totals: Totals) -> list[RewardBucket]:
    """Buckets of equal width. Each value is divided before it is subtracted: a difference may be
    too large a number.
    """
    lowest, highest = totals.lowest, totals.highest
    if lowest is None or highest is None:
        return []
    width = highest / BUCKETS - lowest / BUCKETS
    at: Value | Greatest = Value(0.0)
    if width > 0:
        number = Floor(divided(width) - Value(lowest / width), output_field=FloatField())
        at = Greatest(Value(0.0), Least(number, Value(BUCKETS - 1.0)), output_field=FloatField())
    # Those without a reward are left out of what was counted: as a filter that leads SQLite to the
    # index of rewards, whose order is none of the table's.
    rows = matching.order_by().annotate(
        bucket=Case(When(reward__isnull=False, then=at), output_field=FloatField())
    )
    counted = (
        rows.values("bucket")
        .annotate(low=Min("reward"), high=Max("reward"), count=Count("*"))
        .order_by("bucket")
    )
    return [
        RewardBucket(lowest=row["low"], highest=row["high"], count=row["count"])
        for row in counted
        if row["bucket"] is not None
    ]


def episodes_nearest(
    *, project: Project, session_id: str, held_out: bool, from_version: int, to_version: int | None
) -> NearestPlays:
    """The tasks that were played near both versions (None: the newest), held out or trained. Raises
    NotFound.

    Read are the episodes of the versions around the two, and more only where these have no task in
    common: what a comparison costs does not grow with the run, but where tasks come around after
    more than a few hundred steps.
    """
    session = session_get(project=project, session_id=session_id)
    fate = EpisodeFate.EVAL if held_out else EpisodeFate.TRAINED
    rows = EpisodeRecord.objects.filter(
        session=session,
        eval=held_out,
        fate=fate,
        task__isnull=False,
        reward__isnull=False,
        policy_version_last__isnull=False,
    )
    of = (from_version, session.policy_version if to_version is None else to_version)
    found = NearestPlays(items=[], tasks_in_all=0, reach=None)
    for reach in REACHES:
        near = rows if reach is None else rows.filter(_around(of[0], reach) | _around(of[1], reach))
        groups = (
            near.order_by()
            .values_list("task", "policy_version_last")
            .annotate(episodes=Count("*"), scaled=Sum(divided(SCALE)))
        )
        plays = [
            Play(task or "", version or 0, n, mean(scaled, n))
            for task, version, n, scaled in groups
        ]
        found = nearest_plays(plays, of, reach)
        if found.items:
            break
    return found


def _around(version: int, reach: int) -> Q:
    return Q(policy_version_last__range=(max(0, version - reach), version + reach))
