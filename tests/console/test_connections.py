"""A connection to the database is kept from one request to the next while the database answers on
it.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import on_postgres
import pytest
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler
from pytest_django import DjangoDbBlocker

from console.config.database import CONN_MAX_AGE_S, databases_read


@pytest.fixture(autouse=True)
def unblocked(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The tests' own database is not used here."""
    with django_db_blocker.unblock():
        yield


def value(connection: BaseDatabaseWrapper, sql: str, *given: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, given)
        return cursor.fetchone()[0]


def test_the_next_request_has_the_connection_of_the_one_before_until_it_is_old(
    tmp_path: Path,
) -> None:
    connection = ConnectionHandler(databases_read(f"sqlite:///{tmp_path / 'file'}"))["default"]
    assert (
        value(connection, "PRAGMA journal_mode") == "wal"
        and value(connection, "PRAGMA synchronous") == 2
    )
    first = connection.connection
    connection.close_if_unusable_or_obsolete()
    assert connection.connection is first
    assert connection.close_at is not None
    connection.close_at -= CONN_MAX_AGE_S
    connection.close_if_unusable_or_obsolete()
    assert connection.connection is None


def test_a_database_that_is_away_says_why_at_once(tmp_path: Path) -> None:
    url = f"postgres://app@{str(tmp_path).replace('/', '%2F')}/postgres"
    with pytest.raises(OperationalError, match="No such file"):
        value(ConnectionHandler(databases_read(url))["default"], "SELECT 1")


@pytest.mark.system
@pytest.mark.skipif(
    on_postgres.postgres_tools() is None, reason="PostgreSQL is not on this machine"
)
def test_a_connection_that_the_database_ended_fails_no_request() -> None:
    """As after its restart, or by its idle_session_timeout."""
    tools = on_postgres.postgres_tools()
    assert tools is not None
    with tempfile.TemporaryDirectory(prefix="tinkerscript-postgres-") as folder:
        Path(folder).chmod(0o755)  # its server is another user's where the tests are root's
        with on_postgres.postgres(tools, Path(folder)) as url:
            ours, other = (ConnectionHandler(databases_read(url))["default"] for _ in range(2))
            first = value(ours, "SELECT pg_backend_pid()")
            assert value(other, "SELECT pg_terminate_backend(%s, 20000)", first) is True
            ours.close_if_unusable_or_obsolete()  # which the next request begins with
            assert value(ours, "SELECT pg_backend_pid()") != first
            for each in (ours, other):
                each.close()
