"""The types of query strings."""

from datetime import UTC, date
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    Field,
    FiniteFloat,
    ValidationInfo,
    field_validator,
)

from api.rest.parsing import MAX_INTEGER, YEARS, Query
from tinkerscript.wire.episodes import Thumb
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.projects import UsageBy
from tinkerscript.wire.reading.facets import bound_of
from tinkerscript.wire.reading.points import MetricAxis
from tinkerscript.wire.reading.trajectories import EpisodeFate, EpisodeSort
from tinkerscript.wire.sessions import SessionKind, SessionSort, SessionState, Tag
from tinkerscript.wire.tinker.messages import CallKind

At = TypeVar("At", bound=date)


def _year_check(at: At) -> At:
    if at.year not in YEARS:
        raise ValueError(f"must be in a year from {YEARS.start} to {YEARS.stop - 1}")
    return at


def _bound_check(text: str) -> str:
    bound_of(text)
    return text


Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
Place = Annotated[int, Field(ge=0, le=MAX_INTEGER)]  # where a page begins, or ended
Bound = Annotated[str, Field(max_length=300), AfterValidator(_bound_check)]
Day = Annotated[date, AfterValidator(_year_check)]
# In UTC, because PostgreSQL takes no offset of 16 hours and more.
Time = Annotated[
    AwareDatetime, AfterValidator(_year_check), AfterValidator(lambda at: at.astimezone(UTC))
]


class LimitQuery(Query):
    """The newest so many."""

    limit: int = Field(50, ge=1, le=200)


class PageQuery(Query):
    """One page of a list."""

    cursor: str | None = None
    limit: int = Field(50, ge=1, le=200)


class UsageDaysQuery(Query):
    """A period of whole days in UTC, both included."""

    first: Day | None = Field(None, description="By default 29 days before the last.")
    last: Day | None = Field(None, description="By default today.")
    by: UsageBy = UsageBy.MODEL


class AlertQuery(PageQuery):
    """One page of alerts."""

    standing: bool = Field(False, description="Only those that are not over.")


class ResumeQuery(Query):
    """How a suspended session goes on."""

    trainer_ranks: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Under so many trainer processes, from the state that the suspension saved.",
    )


class EpisodeFilterQuery(Query):
    """The episodes that match."""

    task: str | None = Field(None, max_length=512, description="Only those of this task.")
    fate: list[EpisodeFate] = Field([], description="Only those with one of these fates.")
    eval: bool | None = Field(None, description="Only those that are, or are not, for evaluation.")
    reward_min: FiniteFloat | None = None
    reward_max: FiniteFloat | None = None
    version: Number | None = Field(None, description="Only those that this policy version sampled.")
    step: Number | None = Field(None, description="Only those that this step trained.")
    agent: str | None = Field(
        None, max_length=200, description="Only those with calls of this agent."
    )
    q: str | None = Field(
        None,
        max_length=200,
        description="Only those with this, in any case, in the task, the last 500 characters of "
        "what was asked, or the"
        " first 500 of the last answer.",
    )
    metric: list[Bound] = Field(
        [],
        max_length=10,
        description="Only those within all of these bounds on what their agents measured: turns>=3,"
        " reward/format<=0.5, rewards_by_agent/solver>=1.",
    )
    thumb: Thumb | None = Field(None, description="Only those that somebody has given this.")
    commented: bool | None = Field(
        None, description="Only those that do, or do not, have a comment."
    )


class EpisodeQuery(EpisodeFilterQuery, PageQuery):
    """One page of the episodes that match."""

    sort: EpisodeSort | None = Field(None, description="newest, if absent.")


class NeighboursQuery(EpisodeFilterQuery):
    """The list that the episode is looked for in."""

    sort: EpisodeSort = EpisodeSort.NEWEST


class NearestQuery(Query):
    """The two versions that are compared."""

    from_version: Number = 0
    to_version: Number | None = Field(None, description="The session's newest, if absent.")
    held_out: bool = Field(
        False, description="By the episodes for evaluation, and not by those that were trained."
    )


class SharedEpisodeQuery(PageQuery):
    """One page of the episodes that a link shows."""

    task: str | None = Field(None, max_length=512, description="Only those of this task.")
    fate: list[EpisodeFate] = Field([], description="Only those with one of these fates.")
    step: Number | None = Field(None, description="Only those that this step trained.")
    sort: EpisodeSort = EpisodeSort.NEWEST


class ExportQuery(Query):
    """Which annotations come with an export."""

    annotations_after: Place = Field(0, description="Those that follow this annotations_cursor.")


class DocumentsQuery(Query):
    """One page of where documents are."""

    cursor: int = Field(
        -1, ge=-1, le=MAX_INTEGER, description="A page's next_cursor; the first page if absent."
    )
    limit: int = Field(1000, ge=1, le=5000)


class TimelinesQuery(Query):
    """One page of an episode's tokens."""

    cursor: Place = 0
    limit: int = Field(20_000, ge=1, le=100_000, description="Tokens; context is not divided.")


class GroupQuery(Query):
    """One page of the groups that match."""

    step: Number | None = None
    task: str | None = Field(None, max_length=512)
    cursor: Place | None = None
    limit: int = Field(20, ge=1, le=100)


class AuditQuery(Query):
    """One page of the entries of the audit log that match."""

    before: int | None = Field(None, ge=1, le=MAX_INTEGER)
    limit: int = Field(50, ge=1, le=200)
    actor: str = Field(
        "", max_length=320, description="Only those with this, in any case, in who did it."
    )
    action: str = Field(
        "", max_length=80, description="Only those with this in their action: delete, session_."
    )
    target: str = Field(
        "", max_length=200, description="Only those with this in the ids of what it was done to."
    )
    since: Time | None = Field(None, description="Only those from this time on.")
    until: Time | None = Field(None, description="Only those before this time.")


class SessionQuery(PageQuery):
    """One page of the sessions that match."""

    state: list[SessionState] = Field([], description="Only those in one of these states.")
    kind: list[SessionKind] = Field([], description="Only those of one of these kinds.")
    base_model: str | None = None
    name: str | None = Field(None, description="Only those with this in their name or id.")
    tag: list[Tag] = Field([], max_length=20, description="Only those with all of these tags.")
    config: list[Annotated[str, Field(max_length=400)]] = Field(
        [],
        max_length=20,
        description="Only those with all of these options: grpo_n=8, loss=dapo, max_steps=null. "
        "One that a session is"
        " older than has its default.",
    )
    pinned: bool | None = Field(None, description="Only those that are, or are not, pinned.")
    since: Time | None = Field(None, description="Only those created from this time on.")
    until: Time | None = Field(None, description="Only those created before this time.")
    sort: SessionSort = SessionSort.NEWEST
    reverse: bool = Field(
        False, description="The other way round; those without what is sorted by stay last."
    )
    sort_by: str | None = Field(
        None,
        max_length=220,
        description="With sort=measure: a column of GET .../metrics, such as loss or"
        " metrics/<name>.",
    )
    measure: list[Bound] = Field(
        [],
        max_length=10,
        description="Only those whose last step is within all of these bounds: metrics/turns>=3,"
        " loss<=0.5.",
    )
    measures: bool = Field(False, description="Each with the measures of its last step.")


class LogQuery(Query):
    """The last lines of a log, or the next ones."""

    lines: int = Field(200, ge=1, le=5000)
    after: str = Field(
        "",
        max_length=200,
        description="The cursor of an earlier page: the lines after it, first ones first.",
    )
    q: str = Field(
        "",
        max_length=200,
        description="Only lines with this, in any case, among the last 5000 or 1 MiB.",
    )


class EventQuery(Query):
    """A part of a session's record."""

    after: Place = Field(0, description="The cursor of the last entry seen.")
    limit: int = Field(200, ge=1, le=1000)
    kind: list[EventKind] = Field([], description="Only entries of these kinds.")
    newest: bool = Field(
        False, description="The last entries instead of the first, oldest first all the same."
    )
    marks: bool = Field(
        False, description="Only checkpoints that were committed, refused steps, and restarts."
    )
    wait_s: float = Field(
        0, ge=0, le=20, description="How long to wait for an entry when there is none yet."
    )
    spread: bool = Field(
        False,
        description="With marks: where there are more than limit, of each kind some from its first "
        "to its last. Not"
        " with newest, kind or wait_s.",
    )

    @field_validator("spread")
    @classmethod
    def _spreads_marks_alone(cls, value: bool, info: ValidationInfo) -> bool:
        others = [name for name in ("newest", "kind", "wait_s") if info.data.get(name)]
        if value and (others or not info.data.get("marks", True)):
            raise ValueError(f"goes with marks{f', and not with {others[0]}' if others else ''}")
        return value


class ResourceQuery(Query):
    """A session's samples of its machine, in how many points."""

    points: int = Field(
        1000, ge=1, le=5000, description="Samples beyond this number are put together."
    )


class CallsQuery(Query):
    """Which calls of a model, in how many points."""

    kind: CallKind = Field("forward_backward", description="Calls of this kind.")
    points: int = Field(
        1000, ge=1, le=5000, description="Calls beyond this number are put together."
    )
    number_from: int | None = Field(
        None, ge=1, le=2**53, description="Only calls from this number on."
    )
    number_to: int | None = Field(None, ge=1, le=2**53, description="Only calls up to this number.")


class MetricQuery(Query):
    """Which measures of a session's steps, over what, in how many points."""

    names: str = Field(
        "",
        max_length=1000,
        description="Measures, separated by commas; all if empty."
        " What agents measure is metrics/<name>:"
        " of these, if empty, the hundred that most steps have.",
    )
    x: MetricAxis = Field(MetricAxis.STEP, description="What the steps are drawn over.")
    after: Place = Field(0, description="Only steps recorded after this cursor.")
    points: int = Field(
        1000, ge=1, le=5000, description="Steps beyond this number are put together."
    )
    x_from: FiniteFloat | None = Field(
        None, description="Only steps from this place on the axis on."
    )
    x_to: FiniteFloat | None = Field(None, description="Only steps up to this place on the axis.")
    extremes: bool = Field(
        True, description="Whether a point of several steps has its lowest and highest too."
    )
