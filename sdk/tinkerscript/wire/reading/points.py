"""Steps put together to points: equal numbers of neighbours, with mean and extremes, so that no peak is lost.

The last step of a point gives its place: no point stands beyond the newest step.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from .metrics import MetricAxis, MetricColumn

Step = dict[str, Any]  # StepMetrics as recorded, and "at": seconds since the session was created


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
    """At most ``points`` neighbouring stretches of ``count`` steps, none longer than another by more than one step."""
    points = min(points, count)
    ends = [count * (index + 1) // points for index in range(points)]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def column(values: Sequence[float | None], stretches: Sequence[slice], *, extremes: bool = True) -> MetricColumn:
    """One measure of every step, as a point per stretch; steps without the measure do not count."""
    known = [[value for value in values[stretch] if value is not None] for stretch in stretches]
    mean = [sum(some) / len(some) if some else None for some in known]
    if len(stretches) == len(values) or not extremes:
        return MetricColumn(mean=mean)
    return MetricColumn(
        mean=mean, low=[min(some, default=None) for some in known], high=[max(some, default=None) for some in known]
    )
