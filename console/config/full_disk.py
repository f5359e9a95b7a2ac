"""A full disk under DATA or the database, told in words: which error stands for it, and what a
client is answered.
"""

import errno
import secrets
import shutil
import sqlite3

from django.conf import settings
from django.db import DatabaseError, connection, transaction

from console.errors import DiskFull

# What SQLite says where a file or its memory cannot grow. The last two stand for other faults too.
CERTAIN, POSSIBLE = {sqlite3.SQLITE_FULL}, {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
SQLSTATE = "53100"  # PostgreSQL's disk_full
NEARLY_NOTHING_BYTES = 1 << 20
FILLER_BYTES = 1 << 20
PRIMARY = 0xFF  # of an extended result code of SQLite


def disk_full_of(error: BaseException | None) -> DiskFull | None:
    """What to answer when a full disk is the reason of ``error``; None when it is not."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if _is_of_full_disk(error):
            return DiskFull(
                "The server's disk is full: it can read, and keeps nothing more. Nothing of this "
                "request was kept.",
                hint="Send it again later: the server goes on by itself once its operator has "
                "freed space.",
            )
        error = error.__cause__ or error.__context__
    return None


def is_full() -> bool:
    """Whether next to nothing is free on the disk of DATA."""
    try:
        return shutil.disk_usage(settings.DATA).free < NEARLY_NOTHING_BYTES
    except OSError:
        return False


def database_is_full() -> bool:
    """Whether the database has no room for a megabyte more, wherever its disk is: it is asked to
    take one.

    Nothing of it stays. Raises no DatabaseError: one of another reason is no full disk.
    """
    filler = secrets.token_hex(FILLER_BYTES // 2)  # which does not compress
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("CREATE TABLE console_room_probe (filler text)")
            cursor.execute("INSERT INTO console_room_probe VALUES (%s)", [filler])
            transaction.set_rollback(True)
    except DatabaseError as error:
        return disk_full_of(error) is not None
    return False


def _is_of_full_disk(error: BaseException) -> bool:
    if isinstance(error, sqlite3.Error):
        code = (getattr(error, "sqlite_errorcode", None) or 0) & PRIMARY
        return code in CERTAIN or (code in POSSIBLE and is_full())
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlstate", None) == SQLSTATE
