"""What the parts of ``make gpu`` that measure have in common: two options, and one JSON object with
a table.

    python tests/gpu/PART.py [--json FILE] [--smoke]

FILE gets ``{"title", "columns", "rows", "notes"}``, cells as they are printed. A part that fails
says why on standard error and ends with 1. ``--smoke`` takes a model of this machine's size, on a
CPU: it shows that the part runs, and its figures mean nothing.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Table:
    """What a part found. A cell that was not measured is empty, and a note says why."""

    title: str
    columns: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """As RESULTS.md shows it."""
        lines = [list(self.columns), ["---"] * len(self.columns), *self.rows]
        return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + ["", *self.notes])

    def write(self, path: Path | None) -> None:
        """Print it, and leave it in ``path``."""
        assert all(len(row) == len(self.columns) for row in self.rows), self.rows
        print(f"{self.title}\n\n{self.markdown()}", flush=True)
        if path is not None:
            found = {
                "title": self.title,
                "columns": list(self.columns),
                "rows": self.rows,
                "notes": self.notes,
            }
            path.write_text(json.dumps(found, indent=1) + "\n")


class PartFailed(Exception):
    """Why there is no table, in words."""


def part_parser(description: str) -> argparse.ArgumentParser:
    """With the options of every part."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--json", type=Path, help="where the table is left")
    parser.add_argument(
        "--smoke", action="store_true", help="on a CPU, with a small model: only whether it runs"
    )
    return parser


def part_failed(failure: PartFailed) -> int:
    """Say why; the exit code."""
    print(f"{Path(sys.argv[0]).name}: {failure}", file=sys.stderr)
    return 1
