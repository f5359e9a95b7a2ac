"""What the episodes of a list are, counted by the database: rewards in buckets, fates, tasks."""

from dataclasses import replace

from django.db.models import Avg, Count, F, FloatField, Max, Min, Q, QuerySet, Value
from django.db.models.functions import Floor, Greatest, Least

from console.sessions.episodes.selectors import EpisodeFilter, episodes_matching
from console.sessions.models import EpisodeRecord
from console.sessions.selectors import session_get
from console.users.models import Project
from tinkerscript.wire.reading.facets import BUCKETS, MAX_TASKS, EpisodeFacets, RewardBucket, TaskCount, nine_digits


def episode_facets(*, project: Project, session_id: str, only: EpisodeFilter) -> EpisodeFacets:
    """Counts of the episodes that match. Raises NotFound."""
    session = session_get(project=project, session_id=session_id)
    matching = episodes_matching(session, only)
    totals = matching.aggregate(
        episodes=Count("id"), evaluation=Count("id", filter=Q(eval=True)), lowest=Min("reward"), highest=Max("reward"),
        mean=Avg("reward"),
    )  # fmt: skip
    of_any_fate = episodes_matching(session, replace(only, fates=()))
    by_fate = of_any_fate.order_by().values_list("fate").annotate(count=Count("id"))
    of_any_task = episodes_matching(session, replace(only, task=None)).filter(task__isnull=False)
    by_task = of_any_task.order_by().values_list("task").annotate(count=Count("id")).order_by("-count", "task")
    return EpisodeFacets(
        episodes=totals["episodes"],
        rewards=_buckets(matching, totals["lowest"], totals["highest"]),
        reward_mean=nine_digits(totals["mean"]),
        fates=dict(by_fate),
        evaluation=totals["evaluation"],
        tasks=[TaskCount(task=task, count=count) for task, count in by_task[:MAX_TASKS]],
        tasks_in_all=of_any_task.aggregate(tasks=Count("task", distinct=True))["tasks"],
    )


def _buckets(matching: QuerySet[EpisodeRecord], lowest: float | None, highest: float | None) -> list[RewardBucket]:
    """Buckets of equal width. Each value is divided before it is subtracted: a difference may be too large a number."""
    if lowest is None or highest is None:
        return []
    width = highest / BUCKETS - lowest / BUCKETS
    at: Value | Greatest = Value(0.0)
    if width > 0:
        number = Floor(F("reward") / width - lowest / width, output_field=FloatField())
        at = Greatest(Value(0.0), Least(number, Value(BUCKETS - 1.0)), output_field=FloatField())
    rows = matching.filter(reward__isnull=False).order_by().annotate(bucket=at).values("bucket")
    counted = rows.annotate(low=Min("reward"), high=Max("reward"), count=Count("id")).order_by("bucket")
    return [RewardBucket(lowest=row["low"], highest=row["high"], count=row["count"]) for row in counted]
