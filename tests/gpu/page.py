"""The written side of `make gpu`: a block of the page for each part; all other text of the page
stays as it is.
"""

import re
from collections.abc import Sequence

from gpu.part import Table
from gpu.parts import PARTS, Outcome
from gpu.report import Report

OVERVIEW = "overview"
FIRST = "# The GPU tier\n"


def page_write(text: str, outcomes: Sequence[Outcome], made: str) -> str:
    """``text`` with the overview and the blocks of these parts made anew; ``made``: by what, when,
    from what.

    A part that was not asked for keeps its block, in which its own ``made`` stands.
    """
    text = block_replace(text or FIRST, OVERVIEW, overview(outcomes, made))
    for outcome in outcomes:
        text = block_replace(text, outcome.name, block(outcome, made))
    return text


def block_replace(text: str, name: str, body: str) -> str:
    """``text`` with ``body`` between the markers of ``name``, at its end where it has none yet."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    whole = f"{begin}\n{body.strip()}\n{end}"
    pattern = re.compile(rf"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if pattern.search(text):
        return pattern.sub(lambda _: whole, text)
    return f"{text.rstrip()}\n\n{whole}\n"


def overview(outcomes: Sequence[Outcome], made: str) -> str:
    """A row for each part of the tier, also for those that this run was not asked for."""
    by_name = {outcome.name: outcome for outcome in outcomes}
    rows = []
    for name, part in PARTS.items():
        outcome = by_name.get(name)
        ended = "not asked for in this run" if outcome is None else outcome.ended
        minutes = f"{outcome.took_s / 60:.1f}" if outcome and outcome.took_s else ""
        rows.append([name, ended, minutes, part.shows])
    return f"{made}\n\n" + table_lines(
        Table("", ["part", "outcome", "minutes", "what it shows"], rows)
    )


def block(outcome: Outcome, made: str) -> str:
    """What a part came to: its own sentences and tables, what was not run and why, the last words
    of a failed one.
    """
    report, name = outcome.report, outcome.name
    paragraphs = [
        f"### {name[0].upper()}{name[1:]}",
        f"{outcome.ended[0].upper()}{outcome.ended[1:]}. {made}",
    ]
    paragraphs += report.lines
    for table in report.tables:
        paragraphs += [f"**{table.title}**", table_lines(table), *table.notes]
    paragraphs += _lists(report)
    if outcome.is_failure and outcome.last_lines:
        paragraphs += ["Its last words:", "```\n" + "\n".join(outcome.last_lines) + "\n```"]
    return "\n\n".join(paragraphs)


def _lists(report: Report) -> list[str]:
    failed = "\n".join(f"- FAILED: {_line(what)}" for what in report.failed)
    not_run = "\n".join(
        f"- not run: {_line(each['what'])}: {_line(each['why'])}" for each in report.not_run
    )
    return [part for part in (failed, not_run) if part]


def table_lines(table: Table) -> str:
    """Markdown; a table without rows says so."""
    if not table.rows:
        return "No rows."
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join(
        "| " + " | ".join(_line(cell).replace("|", "/") for cell in cells) + " |" for cells in lines
    )


def _line(text: str) -> str:
    return " ".join(text.split())
