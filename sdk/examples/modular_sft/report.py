"""The table of all experiments, and the plot of their losses: ``python report.py`` reads what
``experiments/`` has.
"""

import json
import sys
from pathlib import Path
from typing import Any

HEAD = (
    "experiment",
    "model",
    "dataset",
    "steps",
    "held-out loss",
    "same reply: base, tuned",
    "minutes",
)


def results_read(folder: Path) -> list[dict[str, Any]]:
    """Everything that each experiment with a checkpoint wrote."""
    results = []
    for found in sorted(folder.glob("*/checkpoint.json")):
        evaluation = found.with_name("evaluation.json")
        results.append(
            json.loads(found.with_name("config.json").read_text())
            | json.loads(found.read_text())
            | {"evaluation": json.loads(evaluation.read_text()) if evaluation.exists() else None}
            | {
                "losses": [
                    json.loads(line)["loss"]
                    for line in found.with_name("metrics.jsonl").read_text().splitlines()
                ]
            }
        )
    return results


def table(results: list[dict[str, Any]]) -> str:
    """A table in Markdown, the lowest held-out loss of each dataset first."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    for each in sorted(results, key=lambda result: (result["dataset"], result["loss_after"])):
        shares = each["evaluation"]
        same = f"{shares['base']:.0%}, {shares['tuned']:.0%}" if shares else "not evaluated"
        loss = f"{each['loss_before']:.3f} to {each['loss_after']:.3f}"
        cells = (
            each["name"],
            each["base_model"],
            each["dataset"],
            each["steps"],
            loss,
            same,
            f"{each['minutes']:.1f}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def plot(results: list[dict[str, Any]], path: Path) -> bool:
    """Training loss by step. False where matplotlib is not installed."""
    try:
        import matplotlib.figure as figures
    except ImportError:
        return False
    figure = figures.Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for each in results:
        axes.plot(range(1, len(each["losses"]) + 1), each["losses"], label=each["name"])
    axes.set(xlabel="step", ylabel="training loss (nats per token)", ylim=(0, None))
    axes.legend()
    figure.savefig(path, dpi=120)
    return True


def report(folder: Path) -> str:
    """Writes comparison.md and comparison.png; returns what to print."""
    results = results_read(folder)
    if not results:
        return f"No experiment in {folder} has a checkpoint yet."
    (folder / "comparison.md").write_text(table(results) + "\n")
    drawn = plot(results, folder / "comparison.png")
    where = (
        f"{folder / 'comparison.png'} has the losses."
        if drawn
        else "No plot: pip install matplotlib, then report.py."
    )
    return f"{table(results)}\n{where}"


if __name__ == "__main__":
    print(report(Path(sys.argv[1] if len(sys.argv) > 1 else "experiments")))
