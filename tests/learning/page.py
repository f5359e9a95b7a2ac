"""The tables of docs/learning.md, made from the curves: a row for each task and seed, TRL's scores
under ours; and one for each rate of a small task.
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CURVES = Path(__file__).with_name("curves")
RATES = CURVES / "rates"
PAGE = ROOT / "docs" / "learning.md"
BLOCK = re.compile(r"(<!-- (curves|rates): begin -->\n).*?(<!-- \2: end -->)", re.DOTALL)
TASKS = {
    "classification": "classification: is a short review positive?",
    "arithmetic": "arithmetic: the sum of two digits",
    "extraction": "extraction: name and age of a sentence as JSON",
    "guessing": "guessing: a number from 1 to 7 in three calls of a tool",
}
SMALL = {
    "letters": "letters: how often is a letter in a word?",
    "sorting": "sorting: four numbers",
    "keys": "keys: a JSON object with three keys",
    "calculator": "calculator: a sum in two turns with a tool",
    "odd_word": "odd_word: which of four words does not belong?",
    "largest": "largest: of five numbers",
    "last_word": "last_word: of a sentence",
    "sequence": "sequence: the next number",
}


def page_write() -> None:
    """Write the tables anew."""
    PAGE.write_text(page_text())


def page_text() -> str:
    """The page with the tables of the curves that are there."""
    made = {"curves": table(_read(CURVES, TASKS)), "rates": rates_table(_read(RATES, SMALL))}
    return BLOCK.sub(lambda block: block[1] + made[block[2]] + block[3], PAGE.read_text())


def _read(folder: Path, tasks: dict[str, str]) -> list[dict[str, Any]]:
    """The curves of a folder by task, rate and seed."""
    curves = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    order = [*tasks]
    return sorted(
        curves,
        key=lambda one: (order.index(one["task"]), *_settings_order(one["config"]), one["seed"]),
    )


def table(curves: list[dict[str, Any]]) -> str:
    """Markdown: the table, then each task's plots."""
    lines = [
        "| task, held-out questions | seed, rate | | before | step 4 | step 8 | step 12 |"
        " reward: first, last | minutes |",
        "| --- " * 9 + "|",
    ]
    for curve in curves:
        seed, rate = curve["seed"], curve["config"]["learning_rate"]
        head = f"{TASKS[curve['task']]}; {curve['held_out']} | {seed}, {rate:g} | here"
        lines.append(_row(head, curve))
        if "trl" in curve:
            lines.append(_row("| | TRL", curve["trl"]))
    plots = [
        f"![{c['task']}, seed {c['seed']}](learning/{c['task']}-seed{c['seed']}.svg)"
        for c in curves
    ]
    return "\n".join([*lines, "", *plots, ""])


def _settings_order(config: dict[str, Any]) -> tuple[float, list[str]]:
    return config["learning_rate"], settings_text(config)


def settings_text(config: dict[str, Any]) -> list[str]:
    """The rate of a curve, and what it has otherwise than by default: options, the model."""
    others = config.get("options", {})
    options = [f"{name}={others[name]}" for name in sorted(others)]
    return [
        f"{config['learning_rate']:g}",
        *options,
        *([config["model"]] if "model" in config else []),
    ]


def rates_table(curves: list[dict[str, Any]]) -> str:
    """Markdown: what each rate did to a small task."""
    lines = [
        "| task | rate | seed, steps | reward | held-out | commonest | in training | distinct |"
        " gradient norm | entropy |",
        "| --- " * 10 + "|",
    ]
    for curve in curves:
        scores, steps = curve["scores"], len(curve["rewards"])
        norms = [norm for norm in curve["grad_norm"] if norm is not None]
        entropies = [value for value in curve["entropy"] if value is not None]
        cells = [
            SMALL[curve["task"]],
            ", ".join(settings_text(curve["config"])),
            f"{curve['seed']}, {steps}",
            _ends(curve["rewards"]),
            _ends([point["score"] for point in scores]),
            _ends([point["commonest"] for point in scores]),
            _ends(curve["commonest"]) if "commonest" in curve else "",
            _ends(curve["distinct"]),
            f"{norms[0]:.1f}, {max(norms):.1f}, {norms[-1]:.1f}" if norms else "none",
            _ends(entropies) if entropies else "none",
        ]
        lines.append(f"| {' | '.join(cells)} |")
        if "trl" in curve:
            lines.append(_peer_row(curve["trl"]))
    return "\n".join([*lines, ""])


def _peer_row(peer: dict[str, Any]) -> str:
    scored = [_ends([point[name] for point in peer["scores"]]) for name in ("score", "commonest")]
    cells = ["", "", "TRL", _ends(peer["rewards"]), *scored, "", "", "", ""]
    return f"| {' | '.join(cells)} |"


def _ends(values: list[float]) -> str:
    return f"{values[0]:.2f}, {values[-1]:.2f}"


def _row(head: str, side: dict[str, Any]) -> str:
    scores = " | ".join(f"{point['score']:.2f}" for point in side["scores"])
    rewards = f"{side['rewards'][0]:.2f}, {side['rewards'][-1]:.2f}"
    return f"| {head} | {scores} | {rewards} | {side['scores'][-1]['at_s'] / 60:.1f} |"
