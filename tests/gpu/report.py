"""What the parts of `make gpu` report, and how ``run.py`` calls them. A part is a program of this
folder:

    python tests/gpu/<part>.py --json FILE [--smoke]

- It writes FILE: one table, as ``part.Table.write`` does, or the ``Report`` here, which has several, is written anew
  after each addition, so that what was measured before a failure is shown, and names what could not be run.
- Its exit status is 0 where all that it ran held. What this machine cannot run is in ``not_run``, and is no failure.
- ``--smoke`` runs all of it on a CPU in a minute or two, on a small model: it shows that the program is right, and its
  figures say nothing.
- It runs in the root of the repository, with ``sys.executable`` the interpreter that has torch and vLLM.
- SIGTERM asks it to end, 150 s later it is killed; what it leaves running is killed too.

``parts.py`` lists the parts, with what each needs and after how long it is taken to hang.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gpu.part import Table


@dataclass
class Report:
    """Written to ``path`` after each addition, where there is one."""

    path: Path | None = None
    lines: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    not_run: list[dict[str, str]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def line(self, text: str) -> None:
        """A sentence above the tables: what was run, with which options."""
        self.lines.append(text)
        self._write()

    def table(self, title: str, columns: Sequence[str]) -> Table:
        """An empty table, for ``row``."""
        self.tables.append(Table(title, list(columns)))
        self._write()
        return self.tables[-1]

    def row(self, table: Table, *cells: object) -> None:
        """A row of ``table``, which is printed too."""
        assert len(cells) == len(table.columns), f"{table.title}: {cells} for {table.columns}"
        table.rows.append([str(cell) for cell in cells])
        print(f"{table.title}: " + ", ".join(table.rows[-1]), flush=True)
        self._write()

    def leave_out(self, what: str, why: str) -> None:
        """``what`` this machine cannot run."""
        self.not_run.append({"what": what, "why": why})
        print(f"not run: {what}: {why}", flush=True)
        self._write()

    def fail(self, what: str) -> None:
        """``what`` did not hold."""
        self.failed.append(what)
        print(f"FAILED: {what}", flush=True)
        self._write()

    @property
    def status(self) -> int:
        """The exit status of the part."""
        return int(bool(self.failed))

    def _write(self) -> None:
        if self.path is not None:
            content = {name: value for name, value in asdict(self).items() if name != "path"}
            self.path.write_text(json.dumps(content, indent=1) + "\n")


def report_read(path: Path) -> Report:
    """What a part left in ``path``; an empty report where it left none, or half of one."""
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return Report()
    if "tables" not in content:
        return Report(tables=[Table(**content)])
    tables = [Table(**each) for each in content.pop("tables")]
    return Report(tables=tables, **content)
