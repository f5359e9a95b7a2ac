"""A curve in plain text, for a terminal: what a reward did over the steps."""

import math
from collections.abc import Sequence
from itertools import pairwise

BARS = " ▁▂▃▄▅▆▇█"


def curve(values: Sequence[float], *, title: str = "", width: int = 64, height: int = 8) -> str:
    """``values`` as columns of blocks, at most ``width`` of them (means of neighbours where there are more).

    The axis begins at the lowest value and ends at the highest. Values that are not finite are left out.
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return f"{title}: nothing to draw" if title else "nothing to draw"
    columns = _means(finite, width)
    low, high = min(columns), max(columns)
    span = (high - low) or 1.0
    eighths = [round((value - low) / span * (height * 8 - 1)) + 1 for value in columns]
    rows = ["".join(BARS[max(0, min(8, filled - 8 * row))] for filled in eighths) for row in reversed(range(height))]
    labels = [f"{high:8.3f} ", *[" " * 9] * (height - 2), f"{low:8.3f} "] if height > 1 else [f"{high:8.3f} "]
    lines = [label + row for label, row in zip(labels, rows, strict=True)]
    return "\n".join([*([title] if title else []), *lines, f"{'':9}1{len(finite):>{max(1, len(columns) - 1)}}"])


def _means(values: Sequence[float], most: int) -> list[float]:
    if len(values) <= most:
        return list(values)
    edges = [round(i * len(values) / most) for i in range(most + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
