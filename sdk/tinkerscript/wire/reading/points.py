"""A session's steps as columns of points, and what their charts are marked with.

Points are equal numbers of neighbouring steps, with their extremes, so that no peak is lost. The
last step of a point gives its place and its values: no point stands beyond the newest step, and
what is read off a point is what its step measured.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Any

from pydantic import Field

from ..base import Response
from ..events import OWN, EventKind, StepMetrics
from ..sessions import SessionState


class MetricAxis(StrEnum):
    """What the steps are drawn over."""

    STEP = "step"
    TIME = "time"  # seconds since the session was created
    TOKENS = "tokens"  # trained so far
    EPISODES = "episodes"  # trained so far


class MetricColumn(Response):
    """One measure, an entry per point: that of the point's last step, None where it lacks the
    measure.

    ``low`` and ``high`` are the extremes among all steps of each point; None where every point is
    one step, or where they were not asked for.
    """

    last: list[float | None]
    low: list[float | None] | None = None
    high: list[float | None] | None = None


class MetricColumns(Response):
    """``x`` and ``steps`` are those of the last step of each point. Entries of the record after
    ``cursor`` are new.
    """

    axis: MetricAxis
    x: list[float]
    steps: list[int]
    columns: dict[str, MetricColumn]
    steps_in_all: int = Field(description="Steps that the points stand for.")
    cursor: int = Field(
        description="What to follow the record after, to miss nothing and see nothing twice."
    )


# StepMetrics as recorded, with "id", its cursor, and "at", seconds since the session's begin.
Step = Mapping[str, Any]
# What a step measured as one number: a column has no place for a list or an object.
MEASURES = frozenset(
    name
    for name, field in StepMetrics.model_fields.items()
    if field.annotation in (int, float, int | None, float | None)
) - {"step"}
# Columns of what agents measure that are read without being named: each step may have other names.
MAX_OWN = 100


def measure_of(step: Step, name: str) -> float | None:
    """What a step measured under the name of a column: a field of StepMetrics, or
    ``metrics/<name>``.
    """
    own = step.get("metrics") or {}
    return own.get(name.removeprefix(OWN)) if name.startswith(OWN) else step.get(name)


def measures_unknown(names: Collection[str]) -> list[str]:
    """Those of ``names`` that no step can have."""
    others = sorted(set(names) - MEASURES)
    return [name for name in others if name.removeprefix(OWN) in (name, "")]


def own_measures(steps: Sequence[Step]) -> set[str]:
    """The columns of what the agents of the steps measured themselves: those that most steps
    have.
    """
    counts = Counter(name for step in steps for name in step.get("metrics") or {})
    return {OWN + name for name, _ in counts.most_common(MAX_OWN)}


def columns_make(
    every: Sequence[Step],
    *,
    cursor: int,
    axis: MetricAxis,
    names: Collection[str] = (),
    after: int = 0,
    x_from: float | None = None,
    x_to: float | None = None,
    points: int = 1000,
    extremes: bool = True,
) -> MetricColumns:
    """Of ``every`` step of a record, in order, those after a cursor and within a part of the axis,
    as at most ``points`` points.

    Axes that add up begin with the first step, whatever part is asked for. No names: every
    measure, of what agents measure at most MAX_OWN.
    """
    placed = [
        (x, step)
        for x, step in zip(axis_values(every, axis), every, strict=True)
        if step["id"] > after and (x_from is None or x >= x_from) and (x_to is None or x <= x_to)
    ]
    steps = [step for _, step in placed]
    stretches = buckets(len(steps), points)
    ends = [stretch.stop - 1 for stretch in stretches]
    return MetricColumns(
        axis=axis,
        x=[placed[end][0] for end in ends],
        steps=[steps[end]["step"] for end in ends],
        columns={
            name: column([measure_of(step, name) for step in steps], stretches, extremes=extremes)
            for name in sorted(names or MEASURES | own_measures(steps))
        },
        steps_in_all=len(steps),
        cursor=cursor,
    )


def axis_values(steps: Sequence[Step], axis: MetricAxis) -> list[float]:
    """Where each step stands on ``axis``."""
    match axis:
        case MetricAxis.STEP:
            return [step["step"] for step in steps]
        case MetricAxis.TIME:
            return [step["at"] for step in steps]
        case MetricAxis.TOKENS:
            return list(accumulate(step["tokens_trained"] for step in steps))
        case MetricAxis.EPISODES:
            return list(accumulate(step["episodes"] for step in steps))


def buckets(count: int, points: int) -> list[slice]:
    """At most ``points`` neighbouring stretches of ``count`` steps, none longer than another by
    more than one step.
    """
    points = min(points, count)
    ends = [count * (index + 1) // points for index in range(points)]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def column(
    values: Sequence[float | None], stretches: Sequence[slice], *, extremes: bool = True
) -> MetricColumn:
    """One measure of every step, as a point per stretch: the last step's, and the extremes of
    all.
    """
    last = [values[stretch.stop - 1] for stretch in stretches]
    if len(stretches) == len(values) or not extremes:
        return MetricColumn(last=last)
    known = [[value for value in values[stretch] if value is not None] for stretch in stretches]
    return MetricColumn(
        last=last,
        low=[min(some, default=None) for some in known],
        high=[max(some, default=None) for some in known],
    )


MARKED_NAMES = ("checkpoint_committed", "step_refused", "config_changed")
# A run that goes back to the queue from one of these had a runtime.
RESTARTED_FROM = (
    SessionState.PROVISIONING,
    SessionState.LOADING,
    SessionState.READY,
    SessionState.STOPPING,
)


def is_mark(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether an entry of the record is one."""
    if kind == EventKind.STATE:
        return data.get("to") == SessionState.QUEUED and data.get("from") in RESTARTED_FROM
    return kind == EventKind.EVENT and data.get("name") in MARKED_NAMES


def marks_thin(marks: Sequence[tuple[int, str]], limit: int) -> list[int]:
    """The cursors of at most ``limit`` of these marks (cursor, what it is; oldest first), in order.

    Where there are more, each kind has an equal share, and what a rare one leaves of its own goes
    to the others; of a kind that has more than its share, marks at equal distances from its first
    to its last.
    """
    by_kind: dict[str, list[int]] = {}
    for cursor, kind in marks:
        by_kind.setdefault(kind, []).append(cursor)
    kept: list[int] = []
    left = limit
    for kinds_left, cursors in zip(
        range(len(by_kind), 0, -1), sorted(by_kind.values(), key=len), strict=True
    ):
        share = min(len(cursors), left // kinds_left)
        kept += (
            [cursors[at * (len(cursors) - 1) // (share - 1)] for at in range(share)]
            if share > 1
            else cursors[-share:][:share]
        )
        left -= share
    return sorted(kept)
