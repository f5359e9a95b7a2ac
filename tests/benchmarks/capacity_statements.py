"""Which statements PostgreSQL took longest over, and which rows and blocks they read: ``capacity.py
--statements 10``.

PostgreSQL counts them itself (pg_stat_statements, of Debian's package postgresql). Its times are
those that pass, not of the CPU alone, and a statement that takes a row waits in its own time for
who has it: what grows shows in calls, rows and blocks. Blocks have 8 kB, and are those found in its
memory and those read. Lists of any length are one statement.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg

OPTIONS = "-c shared_preload_libraries=pg_stat_statements -c pg_stat_statements.track_planning=on"
WIDTH = 600
DEAREST = """
    SELECT sum(total_exec_time + total_plan_time) AS ms, sum(total_plan_time), sum(calls), sum(rows),
           sum(shared_blks_hit + shared_blks_read), sum(sum(total_exec_time + total_plan_time)) OVER (),
           regexp_replace(regexp_replace(query, '\\s+', ' ', 'g'), '\\(\\$\\d+(, \\$\\d+)+\\)', '($, ...)', 'g') AS text
    FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid AND datname = current_database()
    GROUP BY text ORDER BY ms DESC LIMIT %s"""


@contextmanager
def printed(of_database: Mapping[str, str], most: int) -> Iterator[None]:
    """Print at the end the dearest of what is done in between; 0 is none of them."""
    if most:
        reset(of_database["DATABASE_URL"])
    yield
    if most:
        print("\n" + "\n".join(dearest(of_database["DATABASE_URL"], most)), flush=True)


def reset(url: str) -> None:
    """Count from here on."""
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        database.execute("SELECT pg_stat_statements_reset()")


def dearest(url: str, most: int) -> list[str]:
    """As many lines, the dearest statement first, below one of headings."""
    with psycopg.connect(url, autocommit=True) as database:
        found = database.execute(DEAREST, [most]).fetchall()
    lines = [
        f"{'ms':>10}{'share':>7}{'planning':>10}{'calls':>9}{'rows':>10}{'blocks':>12}  statement"
    ]
    for ms, plan_ms, calls, rows, blocks, all_ms, text in found:
        lines.append(
            f"{ms:10.0f}{ms / all_ms:7.1%}{plan_ms:10.0f}{calls:9}{rows:10}{blocks:12}  {shortened(text)}"
        )
    return lines


def shortened(text: str) -> str:
    """The statement without the list of columns that it selects, which says least of it."""
    head, between, rest = text.partition(" FROM ")
    return f"{head[:60]}...{between}{rest}"[:WIDTH] if between and len(head) > 60 else text[:WIDTH]
