"""One connection to a journal file, shared by threads: reads under a lock, writes as
transactions.
"""

import errno
import os
import secrets
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_runtime.errors import DiskFull, LeaseLost
from gpu_runtime.journal.schema import connect


class Database:
    """The file at ``path``. New work asks ``check_room`` first, so that work already taken has the
    reserve.
    """

    def __init__(self, path: Path, *, min_free_bytes: int) -> None:
        self.path = path
        self._min_free_bytes = min_free_bytes
        self._lock = threading.RLock()
        self._holder = ""
        with full_disk_is_named():
            self.connection = connect(path)

    def hold(self) -> None:
        """Write this file alone from now on: whoever held it before changes nothing any more
        (LeaseLost).

        On a file system that several machines mount, the runtime of a machine that the server does
        not reach may live on beside its successor.
        """
        holder = secrets.token_hex(8)
        with self._lock:
            self._holder = ""
            with self.transaction() as connection:
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('holder', ?)", (holder,))
            self._holder = holder

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        with self._lock:
            self.connection.close()

    def check_room(self) -> None:
        """Raises DiskFull when the volume is below its reserve."""
        free = shutil.disk_usage(self.path.parent).free
        if free < self._min_free_bytes:
            raise DiskFull(
                f"{free} bytes are free on the volume of the journal; {self._min_free_bytes} are "
                "needed"
            )

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """Every row of a query."""
        with self._lock:
            return self.connection.execute(query, values).fetchall()

    def row(self, query: str, *values: Any) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        return next(iter(self.rows(query, *values)), None)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several queries with no write of this process between them."""
        with self._lock:
            yield self.connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Several reads and writes as one: on disk when the block ends well, undone when it does
        not.

        Raises LeaseLost where another holds the file by now.
        """
        with self._lock, full_disk_is_named():
            # called inside another transaction of this thread: part of it
            if self.connection.in_transaction:
                yield self.connection
                return
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                self._check_holder()
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled back already.
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def _check_holder(self) -> None:
        if not self._holder:
            return
        found = self.connection.execute("SELECT value FROM meta WHERE name = 'holder'").fetchone()
        if found is None or found[0] != self._holder:
            raise LeaseLost(
                f"another runtime has opened {self.path.name}, which is its session's now"
            )

    def compact(self, *, least_bytes: int) -> bool:
        """Give free pages back to the disk where they are more than half of the file and more than
        ``least_bytes``.

        Returns whether it did. What uses the database waits meanwhile. Raises DiskFull.
        """
        with full_disk_is_named(), self._lock:
            free, pages, page_bytes = (
                self.connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("freelist_count", "page_count", "page_size")
            )
            if free * 2 <= pages or free * page_bytes <= least_bytes:
                return False
            self.rewrite()
            return True

    def rewrite(self) -> None:
        """Write the file anew: nothing that was deleted is left in free pages or in the log. Raises
        DiskFull.
        """
        with full_disk_is_named(), self._lock:
            self.connection.execute("VACUUM")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def backup(self, path: Path) -> None:
        """Write a consistent copy to ``path``, whole or not at all. Raises DiskFull."""
        with full_disk_is_named(), self._lock:
            copy_file(self.connection, path)


def copy_file(connection: sqlite3.Connection, path: Path) -> None:
    """Write a consistent copy of an open journal to ``path``, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    copy = sqlite3.connect(partial, isolation_level=None)
    try:
        connection.backup(copy)
        # A copy travels as one file: without this it would ask for a -wal beside it.
        copy.execute("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)


@contextmanager
def full_disk_is_named() -> Iterator[None]:
    """Turn SQLite's and the system's ways of saying that the disk is full into DiskFull."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:  # the low byte is the primary code
            raise DiskFull(f"the journal could not be written: {error}") from error
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"the journal could not be written: {error}") from error
        raise
