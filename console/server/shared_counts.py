"""Django's cache where several web processes of one machine run without Redis: one SQLite file that they share.

It keeps rates, failed sign-ins and locks; console/server/shared_tallies.py keeps in it what each process has under way.
The next start of ``manage.py up`` removes it, and nothing is flushed to the disk. Where the file cannot be written (a
full disk), each process counts in its own memory until it can: requests are served all the same.
"""

import hashlib
import logging
import pickle
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.cache.backends.locmem import LocMemCache

log = logging.getLogger(__name__)

LOCK_WAIT_S = 5.0
RETRY_S = 10.0  # after a failure, until the file is tried again
PURGE_EVERY = 500  # writes of one process
MAX_ENTRIES = 1_000_000  # as many as the cache of one process has
FILE_ERRORS = (sqlite3.DatabaseError, OSError)
SCHEMA = """
PRAGMA synchronous=OFF;
CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, value, expires_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS kept_until ON kept (expires_at);
CREATE TABLE IF NOT EXISTS under_way (pid INTEGER PRIMARY KEY, start_time INTEGER NOT NULL, counts TEXT NOT NULL);
"""

Statement = tuple[str, Sequence[Any]]
P = ParamSpec("P")
R = TypeVar("R")


class CountsFile:
    """The file, opened at its first use; one object per process. Its methods raise one of FILE_ERRORS when it fails."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._kept_writes = 0
        self._failed_at: float | None = None

    def write(self, *statements: Statement) -> list[list[Any]]:
        """The rows of each statement, all in one transaction."""
        with self._lock:
            return self._transaction(*statements)

    def keep(self, statement: Statement) -> list[Any]:
        """The rows of a statement that writes to ``kept``. Every so many of them remove what is over or too much."""
        with self._lock:
            self._kept_writes += 1
            purge: list[Statement] = []
            if self._kept_writes % PURGE_EVERY == 0:
                surplus = "(SELECT max(0, count(*) - ?) FROM kept)"
                soonest = f"DELETE FROM kept WHERE key IN (SELECT key FROM kept ORDER BY expires_at LIMIT {surplus})"
                purge = [("DELETE FROM kept WHERE expires_at <= ?", [time.time()]), (soonest, [MAX_ENTRIES])]
            return self._transaction(statement, *purge)[0]

    def read(self, text: str, values: Sequence[Any]) -> list[Any]:
        """The rows of one statement that writes nothing."""
        with self._lock:
            return self._open().execute(text, values).fetchall()

    def may_be_used(self, *, to_write: bool) -> bool:
        """Whether it works as far as is known. One that failed is tried again after a while, by a write."""
        if self._failed_at is None:
            return True
        return to_write and time.monotonic() - self._failed_at >= RETRY_S

    def set_failed(self, error: Exception) -> None:
        """Have this process count in its own memory for a while; logged once, until it works again."""
        if self._failed_at is None:
            log.error("%s fails (%s): until it works, each web process counts for itself alone", self._path, error)
        self._failed_at = time.monotonic()

    def set_works(self) -> None:
        """A write succeeded."""
        if self._failed_at is not None:
            log.warning("%s works again: web processes count together", self._path)
            self._failed_at = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            opened = sqlite3.connect(self._path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
            try:
                _into_wal(opened)
                opened.executescript(SCHEMA)
            except BaseException:
                opened.close()
                raise
            self._connection = opened
        return self._connection

    def _transaction(self, *statements: Statement) -> list[list[Any]]:
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = [connection.execute(text, values).fetchall() for text, values in statements]
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite itself ends it when the disk is full
                connection.execute("ROLLBACK")
            raise
        return found


@lru_cache(maxsize=1)
def counts_file(path: Path) -> CountsFile:
    """The file of this process: Django makes a cache object for each thread, and under ASGI for each request."""
    return CountsFile(path)


def _into_wal(opened: sqlite3.Connection) -> None:
    """Let readers and a writer not wait for one another. Raises sqlite3.OperationalError after LOCK_WAIT_S.

    The web processes of a server open a new file at the same moment, and SQLite refuses this change at once, without
    the wait that any other statement has, while another connection writes.
    """
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            opened.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.01)


def _or_in_memory(method: Callable[Concatenate["FileCache", P], R]) -> Callable[Concatenate["FileCache", P], R]:
    """The same method of the cache in this process's memory, while the file fails."""

    @wraps(method)
    def either(cache: "FileCache", *values: P.args, **named: P.kwargs) -> R:
        file, to_write = counts_file(cache.location), method.__name__ != "get"
        if file.may_be_used(to_write=to_write):
            try:
                found = method(cache, *values, **named)
            except FILE_ERRORS as error:
                file.set_failed(error)
            else:
                if to_write:  # a full disk can be read
                    file.set_works()
                return found
        in_memory: R = getattr(cache.memory, method.__name__)(*values, **named)
        return in_memory

    return either


class FileCache(BaseCache):
    """Django's cache in the file. Keys are hashed: some name people."""

    def __init__(self, location: Path, params: dict[str, Any]) -> None:
        super().__init__(params)
        self.location = location
        self.memory = _Memory(str(location), {"OPTIONS": {"MAX_ENTRIES": MAX_ENTRIES}})

    @_or_in_memory
    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        now = time.time()
        sql = """INSERT INTO kept VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE
                 SET value = excluded.value, expires_at = excluded.expires_at WHERE expires_at <= ? RETURNING 1"""
        return bool(self._write(sql, [self._key(key, version), _packed(value), self._until(timeout), now]))

    @_or_in_memory
    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        sql = "SELECT value FROM kept WHERE key = ? AND expires_at > ?"
        found = counts_file(self.location).read(sql, [self._key(key, version), time.time()])
        return _unpacked(found[0][0]) if found else default

    @_or_in_memory
    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        values = [self._key(key, version), _packed(value), self._until(timeout)]
        self._write("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", values)

    @_or_in_memory
    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """Raises ValueError for a key that is not there, as Django's others do."""
        sql = "UPDATE kept SET value = value + ? WHERE key = ? AND expires_at > ? RETURNING value"
        found = self._write(sql, [delta, self._key(key, version), time.time()])
        if not found:
            raise ValueError(f"Key '{key}' not found")
        return int(found[0][0])

    @_or_in_memory
    def touch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        sql = "UPDATE kept SET expires_at = ? WHERE key = ? AND expires_at > ? RETURNING 1"
        return bool(self._write(sql, [self._until(timeout), self._key(key, version), time.time()]))

    @_or_in_memory
    def delete(self, key: str, version: int | None = None) -> bool:
        return bool(self._write("DELETE FROM kept WHERE key = ? RETURNING 1", [self._key(key, version)]))

    @_or_in_memory
    def clear(self) -> None:
        self._write("DELETE FROM kept", [])

    def _key(self, key: str, version: int | None) -> bytes:
        return hashlib.sha256(self.make_and_validate_key(key, version=version).encode()).digest()

    def _until(self, timeout: Any) -> float:
        until = self.get_backend_timeout(timeout)
        return float("inf") if until is None else until

    def _write(self, text: str, values: Sequence[Any]) -> list[Any]:
        return counts_file(self.location).keep((text, values))


class _Memory(LocMemCache):
    """What one process counts while the file fails."""

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        self.add(key, 0, version=version)  # it may be in the file alone
        return int(super().incr(key, delta, version=version))


def _packed(value: Any) -> Any:
    return value if type(value) is int else pickle.dumps(value)


def _unpacked(stored: Any) -> Any:
    return stored if isinstance(stored, int) else pickle.loads(stored)
