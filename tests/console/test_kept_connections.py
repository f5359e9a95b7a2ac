"""Connections to a real PostgreSQL are kept from one thread to the next, and none that is broken or has work open.

Those to SQLite: tests/console/test_kept_sqlite.py.
"""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import on_postgres
import pytest
from django.db import OperationalError, ProgrammingError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler
from pytest_django import DjangoDbBlocker

from console.config import kept_connections
from console.config.database import databases_read
from console.config.kept_connections import KeptConnections
from console.config.postgres import base
from support.waiting import wait_until

T = TypeVar("T")
TOOLS = on_postgres.postgres_tools()
pytestmark = pytest.mark.skipif(TOOLS is None, reason="PostgreSQL is not on this machine")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tinkerscript-postgres-") as folder:
        Path(folder).chmod(0o755)  # its server is another user's where the tests are root's
        with on_postgres.postgres(TOOLS, Path(folder)) as url:
            yield url


@pytest.fixture(autouse=True)
def unblocked(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The tests' own database is not used here."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture
def database(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator["Database"]:
    monkeypatch.setattr(base, "KEPT", KeptConnections(base.KEPT._is_usable))  # noqa: SLF001
    yield Database(url)
    base.KEPT.close()


class Database:
    """The database as the server's settings have it, for threads that come and go as requests do."""

    def __init__(self, url: str) -> None:
        self._handler = ConnectionHandler(databases_read(url))

    def request(self, work: Callable[[BaseDatabaseWrapper], T]) -> T:
        """Do it in a thread of its own, which closes its connection at its end."""

        def thread() -> T:
            connection = self._handler["default"]
            try:
                return work(connection)
            finally:
                connection.close()

        with ThreadPoolExecutor(1) as threads:
            return threads.submit(thread).result(25)

    def at_once(self, count: int) -> set[int]:
        """So many threads with a connection at one time; the processes of PostgreSQL that served them."""
        taken: list[BaseDatabaseWrapper] = []
        for _ in range(count):
            with ThreadPoolExecutor(1) as threads:
                taken.append(threads.submit(lambda: self._handler["default"]).result(25))
        for connection in taken:
            connection.inc_thread_sharing()
        pids = {pid(connection) for connection in taken}
        for connection in taken:
            connection.close()
        return pids


def value(connection: BaseDatabaseWrapper, sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def pid(connection: BaseDatabaseWrapper) -> int:
    """Of the process of PostgreSQL that serves this connection."""
    return value(connection, "SELECT pg_backend_pid()")


@pytest.mark.system
def test_the_next_request_has_the_connection_of_the_one_before(database: Database) -> None:
    assert len({database.request(pid) for _ in range(5)}) == 1


@pytest.mark.system
def test_a_connection_that_the_database_ended_is_not_used_again(database: Database) -> None:
    """As after its restart, or by its idle_session_timeout: no request fails by it."""
    first = database.request(pid)
    ended = database.request(lambda own: own.Database.connect(**own.get_connection_params()))
    with ended.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 20000)", [first])
        assert cursor.fetchone() == (True,), "it has ended"
    ended.close()
    assert database.request(pid) != first


@pytest.mark.system
def test_a_connection_with_an_open_transaction_is_closed(database: Database) -> None:
    """A thread that closes in the middle of one must leave the next neither its locks nor its rows."""

    def unfinished(connection: BaseDatabaseWrapper) -> int:
        connection.set_autocommit(False)
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE unfinished (number int)")
        return pid(connection)

    before = database.request(unfinished)
    assert database.request(pid) != before
    assert database.request(lambda own: value(own, "SELECT to_regclass('unfinished')")) is None
    assert database.request(lambda own: own.get_autocommit())


@pytest.mark.system
def test_a_connection_that_is_closed_in_a_block_is_nobodys(database: Database) -> None:
    """The block goes on with it, and PostgreSQL hears of the block with its first statement."""

    def closed(connection: BaseDatabaseWrapper) -> int:
        mine = pid(connection)
        connection.in_atomic_block = True  # what `atomic` says to the connection of the settings
        connection.close()
        connection.in_atomic_block, connection.closed_in_transaction = False, False
        connection.connection = None
        return mine

    assert database.request(closed) != database.request(pid)


@pytest.mark.system
def test_a_failed_statement_leaves_its_connection_usable(database: Database) -> None:
    def failing(connection: BaseDatabaseWrapper) -> int:
        with pytest.raises(ProgrammingError, match="nowhere"):
            value(connection, "SELECT 1 FROM nowhere")
        return pid(connection)

    assert database.request(failing) == database.request(pid)


@pytest.mark.system
def test_a_busy_process_opens_no_connection_anew(database: Database) -> None:
    """Each is a process that PostgreSQL starts: of many requests at once the next many have the same."""
    served = database.at_once(kept_connections.MAX_KEPT + 3)
    assert len(served) == kept_connections.MAX_KEPT + 3
    assert database.at_once(kept_connections.MAX_KEPT + 3) == served


@pytest.mark.system
def test_no_more_than_the_bound_are_kept_for_long(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_connections, "LINGER_S", 0.2)
    served = database.at_once(kept_connections.MAX_KEPT + 3)
    wait_until(lambda: len(base.KEPT) == kept_connections.MAX_KEPT)
    assert len(served & database.at_once(kept_connections.MAX_KEPT + 3)) == kept_connections.MAX_KEPT


@pytest.mark.system
def test_one_that_was_quiet_for_long_is_replaced(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    first = database.request(pid)
    monkeypatch.setattr(kept_connections, "MAX_IDLE_S", 0.0)
    assert database.request(pid) != first


def test_a_database_that_is_away_says_why_at_once(tmp_path: Path) -> None:
    away = Database(f"postgres://app@{str(tmp_path).replace('/', '%2F')}/postgres")
    with pytest.raises(OperationalError, match="No such file"):
        away.request(pid)


@pytest.mark.system
def test_a_database_of_tests_can_be_dropped_while_connections_to_it_are_kept(url: str, monkeypatch) -> None:
    monkeypatch.setattr(base, "KEPT", KeptConnections(base.KEPT._is_usable))  # noqa: SLF001

    def made(connection: BaseDatabaseWrapper) -> None:
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE of_tests")

    Database(url).request(made)
    of_tests = Database(url.removesuffix("postgres") + "of_tests")
    of_tests.request(pid)
    of_tests.request(lambda connection: connection.creation._destroy_test_db("of_tests", 0))  # noqa: SLF001
    assert len(base.KEPT) == 0, "nor is the connection that dropped it"
    with pytest.raises(OperationalError, match="of_tests"):
        of_tests.request(pid)
    base.KEPT.close()
