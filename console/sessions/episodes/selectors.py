"""Reads of episodes: lists with filters, one episode, groups and steps. Each takes the caller's
project.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter, or_

from django.db.models import ExpressionWrapper, F, FloatField, Q, QuerySet

from console.errors import NotFound, UnknownCursor
from console.json_numbers import NumberOf
from console.live.models import EventRecord
from console.sessions.episodes.models import EpisodeAnnotation
from console.sessions.episodes.names import agent_mark
from console.sessions.episodes.text_blocks import may_have
from console.sessions.models import EpisodeRecord, Session
from console.sessions.selectors import session_get, within_bounds
from console.users.models import Project
from tinkerscript.wire.episodes import Thumb
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.facets import BY_AGENT, MetricBound
from tinkerscript.wire.reading.trajectories import EpisodeFate, EpisodeSort

# Column and whether it grows along the list.
ORDERS = {
    EpisodeSort.NEWEST: ("seq", False),
    EpisodeSort.OLDEST: ("seq", True),
    EpisodeSort.BEST: ("reward", False),
    EpisodeSort.WORST: ("reward", True),
    EpisodeSort.LONGEST: ("sampled_tokens", False),
    EpisodeSort.SURPRISING: ("logprob_mean", True),
}
GROUPED = (EpisodeFate.TRAINED, EpisodeFate.WAITING)
MAX_OF_STEP = 4096  # episodes of one step that are shown
WALKED_AT_ONCE = 500  # episodes that are read to find a page of groups
FEW = 3000  # episodes that are sorted rather than looked for along a sorted index

GroupKey = tuple[int | None, str]  # step (None: it waits) and key


@dataclass(frozen=True)
class EpisodeFilter:
    """What an episode has to be; what is None or empty is not looked at."""

    task: str | None = None
    fates: Collection[EpisodeFate] = ()
    eval: bool | None = None
    reward_min: float | None = None
    reward_max: float | None = None
    version: int | None = None
    step: int | None = None
    agent: str | None = None
    text: str | None = None
    metrics: Collection[MetricBound] = ()
    thumb: Thumb | None = None
    commented: bool | None = None


def episode_list(
    *,
    project: Project,
    session_id: str,
    only: EpisodeFilter,
    sort: EpisodeSort = EpisodeSort.NEWEST,
    cursor: str | None = None,
    limit: int = 50,
) -> tuple[list[EpisodeRecord], str | None]:
    """One page, and the cursor of the next (None: this was the last). Raises NotFound,
    InvalidRequest.
    """
    session = session_get(project=project, session_id=session_id)
    column, grows = ORDERS[sort]
    episodes, by = _sortable(session, only, column)
    if cursor is not None:
        episodes = _after(episodes, by, grows, cursor)
    page = list(_sorted(episodes, by, grows)[: limit + 1])
    more = _cursor(page[limit - 1], column) if len(page) > limit else None
    return page[:limit], more


def episode_neighbours(
    *, project: Project, session_id: str, episode_id: str, only: EpisodeFilter, sort: EpisodeSort
) -> tuple[str | None, str | None]:
    """The ids of the episodes before and after one in a list, wherever in the list it is. Raises
    NotFound.
    """
    record = episode_get(project=project, session_id=session_id, episode_id=episode_id)
    column, grows = ORDERS[sort]
    if getattr(record, column) is None:  # the list has no place for it
        return None, None
    episodes, by = _sortable(record.session, only, column)
    here = _cursor(record, column)
    sides = (
        (not grows, _after(episodes, by, not grows, here)),
        (grows, _after(episodes, by, grows, here)),
    )
    before, after = (
        _sorted(side, by, way).values_list("episode_id", flat=True).first() for way, side in sides
    )
    return before, after


def episode_get(*, project: Project, session_id: str, episode_id: str) -> EpisodeRecord:
    """One episode that was reported. Raises NotFound."""
    session = session_get(project=project, session_id=session_id)
    record = (
        EpisodeRecord.objects.select_related("pack")
        .filter(session=session, episode_id=episode_id)
        .first()
    )
    if record is None:
        raise NotFound("There is no such episode in this session.")
    return record


@dataclass(frozen=True)
class Group:
    """Episodes of one key in one step (None: they wait), in the order in which they began."""

    key: str
    step: int | None
    episodes: list[EpisodeRecord]


def group_list(
    *,
    project: Project,
    session_id: str,
    step: int | None = None,
    task: str | None = None,
    cursor: int | None = None,
    limit: int = 20,
) -> tuple[list[Group], int | None]:
    """One page of the groups that were trained or wait, that with the newest episode first. Raises
    NotFound.
    """
    session = session_get(project=project, session_id=session_id)
    groups = EpisodeRecord.objects.filter(
        session=session, fate__in=GROUPED, group_key__isnull=False
    )
    if step is not None:
        groups = groups.filter(trained_step=step)
    if task is not None:
        groups = groups.filter(task=task)
    page, more = _newest_groups(groups, before=cursor, limit=limit)
    return _groups(session, page), more


def _newest_groups(
    groups: QuerySet[EpisodeRecord], *, before: int | None, limit: int
) -> tuple[list[GroupKey], int | None]:
    """The groups whose newest episode is before ``before``, and where the next page begins.

    A group's newest episode is the first of it that a walk from the newest on meets: so a page
    costs what it shows, and not a look at every episode of the session.
    """
    met: dict[GroupKey, int] = {}
    passed: set[GroupKey] = set()
    upto = before
    while len(met) <= limit:
        rows = groups if upto is None else groups.filter(seq__lt=upto)
        walked = list(
            rows.order_by("-seq").values_list("trained_step", "group_key", "seq")[:WALKED_AT_ONCE]
        )
        if before is not None:  # those whose newest episode is of an earlier page
            passed |= _with_newer(
                groups, before, {(step, key or "") for step, key, _ in walked} - met.keys() - passed
            )
        for step, key, seq in walked:
            if (step, key or "") not in passed:
                met.setdefault((step, key or ""), seq)
        if len(walked) < WALKED_AT_ONCE:
            break
        upto = walked[-1][2]
    found = list(met)[: limit + 1]
    return found[:limit], met[found[limit - 1]] if len(found) > limit else None


def _with_newer(groups: QuerySet[EpisodeRecord], before: int, keys: set[GroupKey]) -> set[GroupKey]:
    """Those of ``keys`` that have an episode from ``before`` on."""
    if not keys:
        return set()
    newer = groups.filter(reduce(or_, (_of_group(*key) for key in keys)), seq__gte=before)
    return {
        (step, key or "") for step, key in newer.values_list("trained_step", "group_key").distinct()
    }


@dataclass(frozen=True)
class Step:
    """What is recorded of one step. ``metric`` is None where it was refused and no other batch was
    trained as it.
    """

    number: int
    metric: EventRecord | None
    refused: list[EventRecord]
    groups: list[Group]
    previous: int | None
    next: int | None


def step_get(*, project: Project, session_id: str, step: int) -> Step:
    """One step with its groups. Raises NotFound where nothing of it is recorded."""
    session = session_get(project=project, session_id=session_id)
    entries = EventRecord.objects.filter(session_id=session.id)
    around = entries.filter(key__in=[f"step {each}" for each in (step - 1, step, step + 1)])
    by_key = {entry.key: entry for entry in around}
    refused = entries.filter(
        kind=EventKind.EVENT, key__startswith="refused ", data__step=step
    ).order_by("id")
    episodes = EpisodeRecord.objects.filter(session=session, trained_step=step).order_by("seq")
    found = Step(
        step,
        by_key.get(f"step {step}"),
        list(refused),
        _by_key(episodes[:MAX_OF_STEP]),
        step - 1 if f"step {step - 1}" in by_key else None,
        step + 1 if f"step {step + 1}" in by_key else None,
    )
    if found.metric is None and not found.refused and not found.groups:
        raise NotFound(f"There is no step {step} in this session.")
    return found


def episodes_matching(session: Session, only: EpisodeFilter) -> QuerySet[EpisodeRecord]:
    """All that the filter leaves. The caller has checked that the session is the reader's."""
    episodes = EpisodeRecord.objects.filter(session=session)
    if only.fates:
        episodes = episodes.filter(fate__in=only.fates)
    exact = {"task": only.task, "eval": only.eval, "trained_step": only.step, "reward__gte": only.reward_min,
             "reward__lte": only.reward_max}  # fmt: skip
    episodes = episodes.filter(
        **{name: value for name, value in exact.items() if value is not None}
    )
    if only.version is not None:
        episodes = episodes.filter(
            policy_version_first__lte=only.version, policy_version_last__gte=only.version
        )
    if only.agent is not None:
        episodes = may_have(session, episodes, agent_mark(only.agent)).filter(
            agents__contains=agent_mark(only.agent)
        )
    episodes = within_bounds(episodes, only.metrics, _measure)
    said = EpisodeAnnotation.objects.filter(session=session).values("episode_id")
    if only.thumb is not None:
        episodes = episodes.filter(episode_id__in=said.filter(thumb=only.thumb))
    if only.commented is not None:
        commented = Q(episode_id__in=said.exclude(comment=""))
        episodes = episodes.filter(commented if only.commented else ~commented)
    if only.text:
        episodes = may_have(session, episodes, only.text).filter(
            Q(answer__icontains=only.text)
            | Q(prompt__icontains=only.text)
            | Q(task__icontains=only.text)
        )
    return episodes


def _sortable(
    session: Session, only: EpisodeFilter, column: str
) -> tuple[QuerySet[EpisodeRecord], str]:
    """The episodes that match and have a value in ``column``, and by what they are sorted."""
    episodes = episodes_matching(session, only)
    if column == "seq":
        return episodes, column
    value = ExpressionWrapper(F(column) + 0, FloatField()) if _is_few(session, only) else F(column)
    return episodes.alias(sorted_by=value).filter(sorted_by__isnull=False), "sorted_by"


def _sorted(episodes: QuerySet[EpisodeRecord], by: str, grows: bool) -> QuerySet[EpisodeRecord]:
    sign = "" if grows else "-"
    return episodes.order_by(*dict.fromkeys((sign + by, sign + "seq")))


def _measure(name: str) -> NumberOf:
    agent = name.removeprefix(BY_AGENT)
    return NumberOf("metrics", name) if agent == name else NumberOf("rewards_by_agent", agent)


def _is_few(session: Session, only: EpisodeFilter) -> bool:
    """Whether task, step or fates leave so few episodes that these are to be read and sorted.

    SQLite has no statistics and walks the index that has the order of the list, past nearly all
    episodes of the session where few pass the filter. No index has the order of an expression.
    """
    given = {"task": only.task, "trained_step": only.step, "fate__in": only.fates or None}
    given = {name: value for name, value in given.items() if value is not None}
    return (
        bool(given) and EpisodeRecord.objects.filter(session=session, **given)[:FEW].count() < FEW
    )


def _after(
    episodes: QuerySet[EpisodeRecord], column: str, grows: bool, cursor: str
) -> QuerySet[EpisodeRecord]:
    value, _, seq = cursor.rpartition("~")
    try:
        number, last = int(seq), float(value) if column != "seq" else 0.0
    except ValueError:
        raise UnknownCursor() from None
    # NaN is no place in a list
    if not 0 <= number < 2**63 or (column == "seq" and value) or last != last:
        raise UnknownCursor()
    side = "gt" if grows else "lt"
    if column == "seq":
        return episodes.filter(**{f"seq__{side}": number})
    here = episodes.filter(**{f"{column}__{side}e": last})  # by itself a range of the index
    return here.filter(Q(**{f"{column}__{side}": last}) | Q(**{f"seq__{side}": number}))


def _cursor(record: EpisodeRecord, column: str) -> str:
    return str(record.seq) if column == "seq" else f"{getattr(record, column)!r}~{record.seq}"


def _groups(session: Session, keys: list[GroupKey]) -> list[Group]:
    if not keys:
        return []
    rows = EpisodeRecord.objects.filter(session=session, group_key__in={key for _, key in keys})
    # Sorted here: asked for their order, SQLite walks all episodes of the session.
    trained = rows.filter(
        fate__in=GROUPED, trained_step__in={step for step, _ in keys if step is not None}
    )
    waiting = rows.filter(fate=EpisodeFate.WAITING, trained_step__isnull=True)
    episodes = sorted([*trained, *waiting], key=attrgetter("seq"))
    found = {(group.step, group.key): group for group in _by_key(episodes)}
    return [found[step_key] for step_key in keys if step_key in found]


def _of_group(step: int | None, key: str) -> Q:
    return (
        Q(group_key=key, trained_step__isnull=True)
        if step is None
        else Q(group_key=key, trained_step=step)
    )


def _by_key(episodes: Iterable[EpisodeRecord]) -> list[Group]:
    groups: dict[GroupKey, list[EpisodeRecord]] = {}
    for episode in episodes:
        groups.setdefault((episode.trained_step, episode.group_key or ""), []).append(episode)
    return [Group(key, step, members) for (step, key), members in groups.items()]
