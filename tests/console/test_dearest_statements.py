"""``capacity.py --statements``: PostgreSQL's dearest statements, as it counts them itself."""

import tempfile
from pathlib import Path

import on_postgres
import psycopg
import pytest
from benchmarks import capacity_statements

TOOLS = on_postgres.postgres_tools()


@pytest.mark.system
@pytest.mark.skipif(TOOLS is None, reason="PostgreSQL is not on this machine")
def test_the_dearest_statements_since_the_reset_come_first_without_what_they_select() -> None:
    with tempfile.TemporaryDirectory(prefix="tinkerscript-postgres-") as folder:
        Path(folder).chmod(0o755)  # its server is another user's where the tests are root's
        with on_postgres.postgres(TOOLS, Path(folder), capacity_statements.OPTIONS) as url:
            with psycopg.connect(url, autocommit=True) as database:
                database.execute(
                    "CREATE TABLE seen AS SELECT n FROM generate_series(1, 200000) AS n"
                )
                capacity_statements.reset(url)
                for without in ("5, 6", "5, 6, 7"):
                    columns = ", ".join(["n + 1"] * 20)
                    database.execute(f"SELECT {columns} FROM seen WHERE n NOT IN ({without})")
                database.execute("SELECT 'once'")
            head, first, *_ = lines = capacity_statements.dearest(url, 2)
    assert len(lines) == 3
    assert head.split() == ["ms", "share", "planning", "calls", "rows", "blocks", "statement"]
    _, _, _, calls, rows, blocks, *statement = first.split()
    assert (calls, rows) == ("2", "399995")
    assert int(blocks) > 2 * 800, "each read the table whole"
    assert " ".join(statement).endswith("... FROM seen WHERE n NOT IN ($, ...)")
    assert len(" ".join(statement)) < 100


def test_a_short_statement_stays_whole_and_a_long_one_is_cut() -> None:
    assert capacity_statements.shortened("SELECT 1 FROM seen") == "SELECT 1 FROM seen"
    assert (
        len(capacity_statements.shortened("UPDATE seen SET n = " + "1 + " * 1000))
        == capacity_statements.WIDTH
    )
