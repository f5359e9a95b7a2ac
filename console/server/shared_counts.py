"""Counts that several web processes of one machine share: one SQLite file, which the next start of the server removes.

``kept`` is Django's cache where there is no Redis: rates, failed sign-ins, locks. ``held`` is what each process has
under way; what a process held that died is taken back when its successor begins. Nothing is flushed to the disk.
"""

import hashlib
import os
import pickle
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache

LOCK_WAIT_S = 5.0
PURGE_EVERY = 500  # writes
MAX_ENTRIES = 1_000_000  # as many as the cache of one process has
SCHEMA = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=OFF;
CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, value, expires_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS kept_until ON kept (expires_at);
CREATE TABLE IF NOT EXISTS held (
    kind TEXT, key BLOB, owner TEXT, amount INTEGER NOT NULL, PRIMARY KEY (kind, key, owner)
) WITHOUT ROWID;
"""
_owner = f"process {os.getpid()}"


class CountsFile:
    """The file, as this process has it open."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._books = sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
        self._books.executescript(SCHEMA)

    def rows(self, *statements: tuple[str, Sequence[Any]]) -> list[list[Any]]:
        """The rows of each statement, all in one transaction."""
        with self._lock:
            self._books.execute("BEGIN IMMEDIATE")
            try:
                found = [self._books.execute(text, values).fetchall() for text, values in statements]
            except BaseException:
                self._books.execute("ROLLBACK")
                raise
            self._books.execute("COMMIT")
            return found

    def read(self, text: str, values: Sequence[Any]) -> list[Any]:
        """The rows of one statement that writes nothing."""
        with self._lock:
            return self._books.execute(text, values).fetchall()


@lru_cache(maxsize=1)
def counts_file(path: Path) -> CountsFile:
    """The one of this process: Django makes a cache for each of its threads."""
    return CountsFile(path)


class FileCache(BaseCache):
    """Django's cache in the file. Keys are hashed: some name people."""

    def __init__(self, location: Path, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._location, self._writes = location, 0

    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        now = time.time()
        sql = """INSERT INTO kept VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE
                 SET value = excluded.value, expires_at = excluded.expires_at WHERE expires_at <= ? RETURNING 1"""
        return bool(self._write(sql, [self._key(key, version), _packed(value), self._until(timeout), now]))

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        sql = "SELECT value FROM kept WHERE key = ? AND expires_at > ?"
        found = counts_file(self._location).read(sql, [self._key(key, version), time.time()])
        return _unpacked(found[0][0]) if found else default

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        values = [self._key(key, version), _packed(value), self._until(timeout)]
        self._write("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", values)

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """Raises ValueError for a key that is not there, as Django's others do."""
        sql = "UPDATE kept SET value = value + ? WHERE key = ? AND expires_at > ? RETURNING value"
        found = self._write(sql, [delta, self._key(key, version), time.time()])
        if not found:
            raise ValueError(f"Key '{key}' not found")
        return int(found[0][0])

    def touch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        sql = "UPDATE kept SET expires_at = ? WHERE key = ? AND expires_at > ? RETURNING 1"
        return bool(self._write(sql, [self._until(timeout), self._key(key, version), time.time()]))

    def delete(self, key: str, version: int | None = None) -> bool:
        return bool(self._write("DELETE FROM kept WHERE key = ? RETURNING 1", [self._key(key, version)]))

    def clear(self) -> None:
        self._write("DELETE FROM kept", [])

    def _key(self, key: str, version: int | None) -> bytes:
        return hashlib.sha256(self.make_and_validate_key(key, version=version).encode()).digest()

    def _until(self, timeout: Any) -> float:
        until = self.get_backend_timeout(timeout)
        return float("inf") if until is None else until

    def _write(self, text: str, values: Sequence[Any]) -> list[Any]:
        self._writes += 1
        purge: list[tuple[str, Sequence[Any]]] = []
        if self._writes % PURGE_EVERY == 0:
            surplus = "(SELECT max(0, count(*) - ?) FROM kept)"
            soonest = f"DELETE FROM kept WHERE key IN (SELECT key FROM kept ORDER BY expires_at LIMIT {surplus})"
            purge = [("DELETE FROM kept WHERE expires_at <= ?", [time.time()]), (soonest, [MAX_ENTRIES])]
        return counts_file(self._location).rows((text, values), *purge)[0]


def _packed(value: Any) -> Any:
    return value if type(value) is int else pickle.dumps(value)


def _unpacked(stored: Any) -> Any:
    return stored if isinstance(stored, int) else pickle.loads(stored)


class Tally(Protocol):
    """How much of something is under way, by who has it."""

    def add(self, key: str, amount: int) -> tuple[int, int]:
        """Count so much more of ``key``, or less; how much there is of it then, and of all."""
        ...


class LocalTally(Counter[str]):
    """That of this process alone."""

    def add(self, key: str, amount: int) -> tuple[int, int]:
        self[key] += amount
        if self[key] <= 0:
            del self[key]
        return self[key], self.total()


class SharedTally:
    """That of all processes that share the file. ``kind``: what is counted."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind = path, kind

    def add(self, key: str, amount: int) -> tuple[int, int]:
        hashed = hashlib.sha256(key.encode()).digest()
        mine = [self._kind, hashed, _owner]
        more = """INSERT INTO held VALUES (?, ?, ?, ?)
                  ON CONFLICT (kind, key, owner) DO UPDATE SET amount = amount + excluded.amount"""
        *_, of_key, of_all = counts_file(self._path).rows(
            (more, [*mine, amount]),
            ("DELETE FROM held WHERE kind = ? AND key = ? AND owner = ? AND amount <= 0", mine),
            ("SELECT coalesce(sum(amount), 0) FROM held WHERE kind = ? AND key = ?", [self._kind, hashed]),
            ("SELECT coalesce(sum(amount), 0) FROM held WHERE kind = ?", [self._kind]),
        )
        return of_key[0][0], of_all[0][0]


def tally(kind: str) -> Tally:
    """A new one: shared where several processes of this machine serve together."""
    return SharedTally(settings.SHARED_COUNTS, kind) if settings.SHARED_COUNTS else LocalTally()


def worker_begin(name: str) -> None:
    """This process is the worker of that name: what the one before it had under way is over."""
    global _owner
    _owner = name
    counts_file(settings.SHARED_COUNTS).rows(("DELETE FROM held WHERE owner = ?", [name]))
