"""What a measure did over the steps: a curve in plain text for a terminal, a picture for a notebook
or a file.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from os import PathLike
from pathlib import Path

from .arguments import path_of, wrong
from .errors import InvalidRequest
from .wire.events import Event, EventKind
from .wire.reading.points import measure_of

BARS = " ▁▂▃▄▅▆▇█"
REWARD = "reward_mean"
WIDTH, HEIGHT = 640, 320  # of the picture, in pixels, as the margins
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 30
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")


def curve(
    values: Sequence[float],
    *,
    title: str = "",
    width: int = 64,
    height: int = 8,
    steps: Sequence[int] = (),
) -> str:
    """``values`` as columns of blocks, at most ``width`` of them (means of neighbours where there
    are more), above the first and the last of their ``steps``, which count from 1 by default.

    The axis begins at the lowest value and ends at the highest. Values that are not finite are left
    out.
    """
    known = [
        (step, value)
        for step, value in zip(steps or range(1, len(values) + 1), values, strict=True)
        if math.isfinite(value)
    ]
    finite = [value for _, value in known]
    if not finite:
        return f"{title}: nothing to draw" if title else "nothing to draw"
    columns = _means(finite, width)
    low, high = min(columns), max(columns)
    span = (high - low) or 1.0
    eighths = [round((value - low) / span * (height * 8 - 1)) + 1 for value in columns]
    rows = [
        "".join(BARS[max(0, min(8, filled - 8 * row))] for filled in eighths)
        for row in reversed(range(height))
    ]
    labels = (
        [f"{high:8.3f} ", *[" " * 9] * (height - 2), f"{low:8.3f} "]
        if height > 1
        else [f"{high:8.3f} "]
    )
    lines = [label + row for label, row in zip(labels, rows, strict=True)]
    first, last = str(known[0][0]), str(known[-1][0]) if len(known) > 1 else ""
    ends = first + last.rjust(max(len(columns) - len(first), len(last) + 1))
    return "\n".join([*([title] if title else []), *lines, f"{'':9}{ends}".rstrip()])


def _means(values: Sequence[float], most: int) -> list[float]:
    if len(values) <= most:
        return list(values)
    edges = [round(i * len(values) / most) for i in range(most + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def png_check() -> None:
    """Call it where a program begins that will write a PNG at its end. Raises InvalidRequest
    without matplotlib.
    """
    if find_spec("matplotlib") is None:
        raise InvalidRequest(
            "A PNG needs matplotlib, which is not installed.",
            hint="pip install matplotlib, or take .svg.",
        )


def picture_path(path: str | PathLike[str]) -> Path:
    """``path``, if a picture can be written there. Raises InvalidRequest."""
    path = path_of("path", path)
    if path.suffix not in (".svg", ".png"):
        raise wrong("path", path, "the path of a .svg or .png file")
    if path.suffix == ".png":
        png_check()
    return path


@dataclass(frozen=True)
class Line:
    """One curve: ``values`` by step."""

    name: str
    steps: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True)
class Plot:
    """What session.plot() returns: a picture in a notebook, text where it is printed."""

    title: str
    lines: Sequence[Line]

    def __str__(self) -> str:
        drawn = [curve(line.values, title=line.name, steps=line.steps) for line in self.lines]
        drawn = drawn or ["no step yet"]
        return "\n\n".join([self.title, *drawn])

    __repr__ = __str__  # a prompt shows it as print() does

    def _repr_svg_(self) -> str:
        return self.svg()

    def svg(self) -> str:
        """The picture, as SVG."""
        points = [
            [
                (float(step), value)
                for step, value in zip(line.steps, line.values, strict=True)
                if math.isfinite(value)
            ]
            for line in self.lines
        ]
        every = [point for line in points for point in line]
        columns, rows = _scale([step for step, _ in every]), _scale([value for _, value in every])
        at_x = _onto(columns, LEFT, WIDTH - RIGHT)
        at_y = _onto(rows, HEIGHT - BOTTOM, TOP)
        shapes = [f'<text x="{LEFT}" y="16" font-weight="bold">{escape(self.title)}</text>']
        for value in (rows[0], sum(rows) / 2, rows[1]):
            y = at_y(value)
            shapes.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ccc"/>')
            shapes.append(
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
            )
        for step, anchor in ((columns[0], "start"), (columns[1], "end")):
            shapes.append(
                f'<text x="{at_x(step):.1f}" y="{HEIGHT - 10}" '
                f'text-anchor="{anchor}">{step:g}</text>'
            )
        for index, (line, its) in enumerate(zip(self.lines, points, strict=True)):
            colour = COLOURS[index % len(COLOURS)]
            path = " ".join(f"{at_x(step):.1f},{at_y(value):.1f}" for step, value in its)
            shapes.append(
                f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            )
            shapes += [
                f'<circle cx="{at_x(s):.1f}" cy="{at_y(v):.1f}" r="2" fill="{colour}"/>'
                for s, v in its
            ]
            place = f'x="{WIDTH - RIGHT}" y="{16 + 14 * index}" text-anchor="end" fill="{colour}"'
            shapes.append(f"<text {place}>{escape(line.name)}</text>")
        size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        style = 'font-family="sans-serif" font-size="12" style="background:#fff"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(shapes)}</svg>\n'

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture to a ``.svg`` or ``.png`` file; the latter needs matplotlib. Raises
        InvalidRequest.
        """
        path = picture_path(path)
        if path.suffix == ".svg":
            path.write_text(self.svg(), encoding="utf-8")
        else:
            self._png(path)

    def _png(self, path: Path) -> None:
        figure_module = import_module("matplotlib.figure")  # not pyplot, which looks for a screen
        axes = figure_module.Figure(figsize=(8, 4.5), layout="constrained").add_subplot()
        for line in self.lines:
            axes.plot(line.steps, line.values, marker=".", label=line.name)
        axes.set(xlabel="step", title=self.title)
        if self.lines:
            axes.legend()
        axes.figure.savefig(path, format="png", dpi=120)


def session_plot(title: str, events: Iterable[Event], measure: str) -> Plot:
    """``measure`` of every step, and for ``reward_mean`` each set of evaluations as a line of its
    own.
    """
    trained: list[tuple[int, float]] = []
    evaluated: dict[str, list[tuple[int, float]]] = {}
    for event in events:
        if (
            event.kind is EventKind.METRIC
            and (value := measure_of(event.data, measure)) is not None
        ):
            trained.append((event.data["step"], float(value)))
        elif event.kind is EventKind.EVALUATION and measure == REWARD:
            evaluated.setdefault(event.data["name"], []).append(
                (event.data["step"], float(event.data["reward_mean"]))
            )
    named = {
        measure: trained,
        **{f"evaluation {name}": points for name, points in evaluated.items()},
    }
    lines = [
        Line(name, [step for step, _ in some], [value for _, value in some])
        for name, some in named.items()
        if some
    ]
    return Plot(title, lines)


def _scale(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _onto(scale: tuple[float, float], start: float, end: float) -> Callable[[float], float]:
    low, high = scale
    return lambda value: start + (value - low) / (high - low) * (end - start)
