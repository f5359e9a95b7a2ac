"""The table of docs/learning.md, made from the curves: a row for each task and seed, TRL's scores
under ours.
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CURVES = Path(__file__).with_name("curves")
PAGE = ROOT / "docs" / "learning.md"
BLOCK = re.compile(r"(<!-- curves: begin -->\n).*?(<!-- curves: end -->)", re.DOTALL)
TASKS = {
    "classification": "classification: is a short review positive?",
    "arithmetic": "arithmetic: the sum of two digits",
    "extraction": "extraction: name and age of a sentence as JSON",
    "guessing": "guessing: a number from 1 to 7 in three calls of a tool",
}


def page_write() -> None:
    """Write the table anew."""
    curves = [json.loads(path.read_text()) for path in sorted(CURVES.glob("*.json"))]
    curves.sort(key=lambda curve: (list(TASKS).index(curve["task"]), curve["seed"]))
    PAGE.write_text(BLOCK.sub(lambda block: block[1] + table(curves) + block[2], PAGE.read_text()))


def table(curves: list[dict[str, Any]]) -> str:
    """Markdown: the table, then each task's plots."""
    lines = [
        "| task, held-out questions | seed | | before | step 4 | step 8 | step 12 | reward: first, last | minutes |",
        "| --- " * 9 + "|",
    ]
    for curve in curves:
        lines.append(
            _row(f"{TASKS[curve['task']]}; {curve['held_out']} | {curve['seed']} | here", curve)
        )
        if "trl" in curve:
            lines.append(_row("| | TRL", curve["trl"]))
    plots = [
        f"![{c['task']}, seed {c['seed']}](learning/{c['task']}-seed{c['seed']}.svg)"
        for c in curves
    ]
    return "\n".join([*lines, "", *plots, ""])


def _row(head: str, side: dict[str, Any]) -> str:
    scores = " | ".join(f"{point['score']:.2f}" for point in side["scores"])
    rewards = f"{side['rewards'][0]:.2f}, {side['rewards'][-1]:.2f}"
    return f"| {head} | {scores} | {rewards} | {side['scores'][-1]['at_s'] / 60:.1f} |"
