"""Connections to SQLite's file are kept from one thread to the next, and none with work open or other rules."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler
from pytest_django import DjangoDbBlocker

from console.config import kept_connections
from console.config.database import databases_read
from console.config.kept_connections import KeptConnections
from console.config.sqlite3 import base
from support.waiting import wait_until

T = TypeVar("T")


@pytest.fixture
def request_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, django_db_blocker: DjangoDbBlocker
) -> Iterator[Callable[[Callable[[BaseDatabaseWrapper], T]], T]]:
    """``request_on(work)``: does it in a thread of its own, which closes its connection at its end."""
    monkeypatch.setattr(base, "KEPT", KeptConnections(base.KEPT._is_usable))  # noqa: SLF001
    handler = ConnectionHandler(databases_read(f"sqlite:///{tmp_path / 'file'}"))

    def on(work: Callable[[BaseDatabaseWrapper], T]) -> T:
        def thread() -> T:
            try:
                return work(handler["default"])
            finally:
                handler["default"].close()

        with ThreadPoolExecutor(1) as threads:
            return threads.submit(thread).result(25)

    with django_db_blocker.unblock():
        yield on
    base.KEPT.close()


def own(connection: BaseDatabaseWrapper) -> sqlite3.Connection:
    connection.ensure_connection()
    return connection.connection


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.execute("SELECT 1").fetchone() == (1,)
    except sqlite3.ProgrammingError:
        return False


def test_the_next_request_has_the_connection_of_the_one_before(request_on) -> None:
    first = request_on(own)
    assert request_on(own) is first and request_on(own) is first


def test_a_kept_connection_has_what_a_new_one_has(request_on) -> None:
    def settings(connection: BaseDatabaseWrapper) -> list[object]:
        names = ("journal_mode", "synchronous", "secure_delete", "foreign_keys")
        return [own(connection).execute(f"PRAGMA {name}").fetchone()[0] for name in names] + [
            connection.get_autocommit(), own(connection).isolation_level
        ]  # fmt: skip

    first = request_on(settings)
    assert first == ["wal", 2, 1, 1, True, None]
    assert request_on(settings) == first


def test_a_connection_with_an_open_transaction_is_closed(request_on) -> None:
    """A thread that closes in the middle of one must leave the next neither its locks nor its rows."""

    def unfinished(connection: BaseDatabaseWrapper) -> sqlite3.Connection:
        connection.ensure_connection()
        connection.set_autocommit(False)
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("CREATE TABLE unfinished (number int)")
        return own(connection)

    first = request_on(unfinished)
    assert not is_open(first)
    assert request_on(lambda connection: connection.introspection.table_names()) == []
    assert request_on(lambda connection: connection.get_autocommit())


def test_a_connection_that_is_closed_in_a_block_is_nobodys(request_on) -> None:
    """The block goes on with it, also where SQLite itself has ended its transaction, as on a full disk."""

    def closed(connection: BaseDatabaseWrapper) -> sqlite3.Connection:
        mine = own(connection)
        connection.in_atomic_block = True  # what `atomic` says to the connection of the settings
        connection.close()
        assert request_on(own) is not mine
        connection.in_atomic_block, connection.closed_in_transaction = False, False
        connection.connection = None
        return mine

    assert not is_open(request_on(closed))


def test_a_connection_that_checks_no_foreign_keys_is_not_used_again(request_on) -> None:
    def careless(connection: BaseDatabaseWrapper) -> sqlite3.Connection:
        assert connection.disable_constraint_checking()
        return own(connection)

    first = request_on(careless)
    assert request_on(own) is not first
    assert not is_open(first)


def test_no_more_than_the_bound_are_kept_for_long(request_on, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_connections, "LINGER_S", 0.2)

    def nested(connection: BaseDatabaseWrapper, left: int) -> list[sqlite3.Connection]:
        mine = own(connection)
        return [mine, *(request_on(lambda other: nested(other, left - 1)) if left else [])]

    at_once = request_on(lambda connection: nested(connection, kept_connections.MAX_KEPT + 2))
    assert len(set(at_once)) == kept_connections.MAX_KEPT + 3
    wait_until(lambda: sum(is_open(each) for each in at_once) == kept_connections.MAX_KEPT)
