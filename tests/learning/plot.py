"""A learning curve as SVG, written by hand: the share of right held-out answers over steps, ours
and TRL's.
"""

from collections.abc import Sequence
from typing import Any

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 480, 280, 52, 34, 16, 44
COLORS = {"here": "#1f6feb", "TRL GRPOTrainer": "#d1642a"}


def curve_plot(curve: dict[str, Any]) -> str:
    """The SVG of a file of ``tests/learning/curves``."""
    lines = {"here": curve["scores"]} | (
        {"TRL GRPOTrainer": curve["trl"]["scores"]} if "trl" in curve else {}
    )
    last = max(point["step"] for points in lines.values() for point in points) or 1
    parts = [
        _text(
            LEFT,
            18,
            f"{curve['task']}, seed {curve['seed']}: right of {curve['held_out']} held-out answers",
        )
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _y(share)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ccc"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{share:.0%}", anchor="end"))
    for number, (name, points) in enumerate(lines.items()):
        parts.append(_line(points, last, COLORS[name]))
        parts.append(_text(LEFT + 150 * number, HEIGHT - 6, name, fill=COLORS[name]))
    parts += [
        _text(_x(point["step"], last), HEIGHT - 26, str(point["step"]), anchor="middle")
        for point in lines["here"]
    ]
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    return "\n".join(
        [head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *parts, "</svg>", ""]
    )


def _line(points: Sequence[dict[str, float]], last: float, color: str) -> str:
    places = [(_x(point["step"], last), _y(point["score"])) for point in points]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in places)
    return f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"/>{dots}'


def _text(x: float, y: float, words: str, *, anchor: str = "start", fill: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{words}</text>'


def _x(step: float, last: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * step / last


def _y(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)
