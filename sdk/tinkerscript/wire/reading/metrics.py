"""A session's steps as columns: as many points as a chart can show, however many steps there
were.
"""

from enum import StrEnum

from pydantic import Field

from ..base import Response


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
