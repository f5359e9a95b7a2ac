"""One at a time, in all processes of a server: work on a session's objects that two callers at once would undo."""

import fcntl
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection


@contextmanager
def session_turn(session_id: str) -> Iterator[None]:
    """Wait until no one else is in this block for the session, and hold it.

    It is no lock of a row: that would need a transaction around requests to the object store. PostgreSQL serves
    processes on several machines and has locks of its own for this; with SQLite all processes see one folder.
    """
    if connection.vendor == "postgresql":
        number = zlib.crc32(session_id.encode())
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [number])
            try:
                yield
            finally:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [number])
        return
    folder = settings.DATA / "run"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "session_turn").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # closing gives it up
        yield
