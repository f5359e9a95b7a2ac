"""What the server does every second does not grow with the sessions that have ended."""

import re
from contextlib import suppress

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.errors import StorageUnavailable
from console.scheduling import periodic_tasks
from console.sessions.limits.usage import usage_sum
from console.sessions.models import Session
from support import factories

pytestmark = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL reads a table of a few rows whole"
)
KINDS = ("PERIODIC_TASKS", "HASHING_TASKS", "BUDGET_TASKS", "MAIL_TASKS")
EVERY_SECOND = {task for kind in KINDS for task in getattr(periodic_tasks, kind)}
GROWING = "console_session|console_checkpoint|console_eventrecord|console_episoderecord|console_runtimespan"


def read_whole(captured: CaptureQueriesContext) -> set[str]:
    """The statements for which SQLite reads a table that grows from its first row to its last."""
    found = set()
    for query in captured.captured_queries:
        sql = query["sql"]
        if re.match(r"SELECT|UPDATE|DELETE", sql) and "sqlite_master" not in sql:
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN QUERY PLAN {sql}".replace("%", "%%"), None)
                plan = [detail for *_, detail in cursor.fetchall()]
            if any(re.fullmatch(rf"SCAN ({GROWING})", detail) for detail in plan):
                found.add(sql)
    return found


def test_a_tick_of_the_reconciler_reads_sessions_by_an_index(world, project) -> None:
    factories.session_make(project)
    world.tick()
    with CaptureQueriesContext(connection) as captured:
        world.tick()
    assert "launch_handle" in str(captured.captured_queries)
    assert read_whole(captured) == set()


@pytest.mark.parametrize("task", sorted(EVERY_SECOND | {usage_sum}, key=lambda task: task.__name__))
def test_what_is_done_every_second_reads_what_grows_by_an_index(task, project) -> None:
    Session.objects.filter(id=factories.session_make(project).id).update(
        state="ready", desired="run"
    )
    # there is no store
    with CaptureQueriesContext(connection) as captured, suppress(StorageUnavailable):
        task()
    assert read_whole(captured) == set()
