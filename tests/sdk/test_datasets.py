"""Readers of tasks: the same rows from three kinds of files, and every mistake by file, line and
column.
"""

import json
from pathlib import Path

import pytest

from tinkerscript import InvalidRequest
from tinkerscript.datasets import rows_read

ROWS = [
    {"answer": "otter", "category": "animal", "split": "train"},
    {"answer": "piano", "category": "instrument", "split": "test"},
    {"answer": "a, b", "category": "line\nbreak", "split": "train"},
]


def write(folder: Path, kind: str, rows: list[dict]) -> Path:
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        pa = pytest.importorskip("pyarrow", reason="reading Parquet needs pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    else:
        import csv

        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_all_kinds_give_the_same_rows(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, kind, ROWS)
    assert rows_read(path) == ROWS
    assert rows_read(str(path), split="train", columns=["answer"]) == [ROWS[0], ROWS[2]]


def test_json_lines_end_at_line_feeds_alone_and_may_begin_with_a_byte_order_mark(
    tmp_path: Path,
) -> None:
    rows = [{"text": "a\u2028b\u2029c"}, {"text": "d\u0085e"}]
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "\ufeff" + "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows),
        encoding="utf-8",
    )
    assert rows_read(path) == rows


def test_a_split_without_rows_names_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"no rows of split 'val'.*train \(2\), test \(1\)"):
        rows_read(write(tmp_path, "csv", ROWS), split="val")


def test_a_missing_column_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidRequest, match=r"row 1 has no column 'question'.*answer, category, split"
    ):
        rows_read(write(tmp_path, "jsonl", ROWS), columns=["question"])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rows.txt", "a", "unknown kind"),
        ("rows.csv", "a,b\n1\n", "line 2: it has another number"),
        ("rows.csv", "a,b\n1,2,3\n", "line 2: it has another number"),
        ("rows.csv", "a,b\n", "no rows"),
        ("rows.jsonl", '{"a": 1}\n{"a": \n', "line 2: not JSON"),
        ("rows.jsonl", "[1]\n", "line 1: an object is needed, not list"),
        ("rows.parquet", "no parquet", "not a Parquet file"),
    ],
)
def test_a_broken_file_is_refused_by_line(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidRequest, match=said):
        rows_read(tmp_path / name)


def test_text_that_is_not_utf8_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    for kind in ("csv", "jsonl"):
        (tmp_path / f"rows.{kind}").write_bytes(b"a,b\n\xff\xfe,1\n")
        with pytest.raises(InvalidRequest, match="UTF-8"):
            rows_read(tmp_path / f"rows.{kind}")
    with pytest.raises(InvalidRequest, match="is not a file"):
        rows_read(tmp_path / "absent.csv")
