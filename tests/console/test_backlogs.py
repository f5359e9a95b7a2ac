"""A backlog is worked off a thousand rows at a time, and no thousand costs more because others wait
behind it.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.sessions.limits.usage import usage_sum


@pytest.mark.django_db
@pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite's indexes all end in the row's number"
)
def test_postgresql_finds_the_next_spans_to_add_up_without_sorting_all_that_wait() -> None:
    with CaptureQueriesContext(connection) as captured:
        usage_sum()
    (sql,) = [query["sql"] for query in captured.captured_queries if "FOR UPDATE" in query["sql"]]
    with connection.cursor() as cursor:
        # it takes them where there is no other
        for way in ("seqscan", "bitmapscan", "sort", "incremental_sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute("EXPLAIN " + sql)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Index Scan using span_unsummed on console_runtimespan" in plan
    assert "Sort" not in plan
