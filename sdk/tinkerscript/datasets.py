"""Reads tasks from a file: CSV, JSON lines or Parquet, one dict a row, with the parts that a
``split`` column names.
"""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .errors import InvalidRequest

Row = dict[str, Any]
SPLIT = "split"


def rows_read(
    path: str | Path, *, split: str | None = None, columns: Iterable[str] = ()
) -> list[Row]:
    """Every row of a ``.csv``, ``.jsonl`` or ``.parquet`` file in its order; with ``split``, those
    of that part.

    ``columns`` are the ones that the caller will use. Raises InvalidRequest, which names the file
    and the line or column: a file that is missing, of another kind or not readable, a column that
    is not there, a split without rows.

    Example: ``rows_read("nouns.csv", split="train", columns=["answer", "category"])``
    """
    path = Path(path)
    rows = _reader(path)(path)
    if not rows:
        raise InvalidRequest(f"{path} has no rows.")
    _columns_check(path, rows, [*columns, *([SPLIT] if split is not None else [])])
    if split is None:
        return rows
    chosen = [row for row in rows if row[SPLIT] == split]
    if not chosen:
        found = ", ".join(
            f"{name} ({count})" for name, count in Counter(row[SPLIT] for row in rows).items()
        )
        raise InvalidRequest(f"{path} has no rows of split {split!r}.", hint=f"It has: {found}.")
    return chosen


def _reader(path: Path) -> Callable[[Path], list[Row]]:
    readers = {".csv": _csv, ".jsonl": _json_lines, ".parquet": _parquet}
    if path.suffix not in readers:
        raise InvalidRequest(f"{path}: unknown kind of file.", hint=f"Known: {', '.join(readers)}.")
    if not path.is_file():
        raise InvalidRequest(
            f"{path} is not a file.", hint="A relative path begins at the working directory."
        )
    return readers[path.suffix]


def _csv(path: Path) -> list[Row]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restkey="", strict=True)
            return [_whole(path, reader.line_num, row) for row in reader]
    except (csv.Error, UnicodeDecodeError) as failure:
        raise InvalidRequest(f"{path} is not CSV in UTF-8: {failure}") from failure


def _whole(path: Path, line: int, row: dict[str, str | None]) -> Row:
    if "" in row or None in row.values():
        raise InvalidRequest(
            f"{path}, line {line}: it has another number of columns than the first line."
        )
    return dict(row)


def _json_lines(path: Path) -> list[Row]:
    rows: list[Row] = []
    try:
        # Not splitlines(): a JSON text may hold U+2028, U+0085 or a form feed as it is.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as failure:
        raise InvalidRequest(f"{path} is not UTF-8: {failure}") from failure
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as failure:
            raise InvalidRequest(f"{path}, line {number}: not JSON: {failure}") from failure
        if not isinstance(row, dict):
            raise InvalidRequest(
                f"{path}, line {number}: an object is needed, not {type(row).__name__}."
            )
        rows.append(row)
    return rows


def _parquet(path: Path) -> list[Row]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as failure:
        raise InvalidRequest(
            f"{path}: reading Parquet needs pyarrow.", hint="pip install pyarrow"
        ) from failure
    try:
        return pq.read_table(path).to_pylist()
    except pa.ArrowException as failure:
        raise InvalidRequest(f"{path} is not a Parquet file: {failure}") from failure


def _columns_check(path: Path, rows: list[Row], columns: list[str]) -> None:
    for column in columns:
        without = next((number for number, row in enumerate(rows, 1) if column not in row), None)
        if without is not None:
            raise InvalidRequest(
                f"{path}: row {without} has no column {column!r}.",
                hint=f"It has: {', '.join(rows[without - 1])}.",
            )
