"""A runtime's log in its folder: written by the runtime itself, read and kept small by others. So
is the store's.

``runtime.log`` grows to LIMIT_BYTES and is then emptied in place, after its end was copied to
``runtime.log.1``. In place, because the runtime and everything that it started write to a
descriptor that no other process can redirect; it was opened to append, so that their next write is
at the new end.

Guaranteed: the two hold at most twice the limit and what is written between two looks, in order and
nothing twice. Lost can only be what is written in the microseconds between the last read and the
truncation, and what exceeds the limit between two looks that are far apart. A line that one write
brings within 20 ms is lost whole or not at all.
"""

import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import BinaryIO

LOG = "runtime.log"
LIMIT_BYTES = 16 << 20
TAIL_BYTES = 1 << 20
BLOCK_BYTES = 1 << 20
LINE_LOOKS, LINE_LOOK_S = 20, 0.001


def log_tail(path: Path, *, lines: int) -> list[str]:
    """The last lines, none when there is no such file; at most 1 MiB of it and of the older one is
    read.
    """
    text = _end(path)
    # First the newer one: one that is emptied right now is read full, or else with an older one
    # that is complete.
    if len(text) < TAIL_BYTES and text.count(b"\n") < lines:
        text = _end(older_log(path)) + text
    # not at \r: a progress bar is one line
    found = text.removesuffix(b"\n").split(b"\n") if text else []
    return [line.decode(errors="replace").rstrip() for line in found[-lines:]]


def log_bound(path: Path, *, limit_bytes: int = LIMIT_BYTES) -> bool:
    """Whether the log had outgrown its limit and was emptied. Raises OSError, and then it is as it
    was.

    Of several processes that do it at once one does.
    """
    try:
        log = path.open("r+b")
    except FileNotFoundError:
        return False
    with log:
        if os.fstat(log.fileno()).st_size <= limit_bytes:
            return False
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        size = os.fstat(log.fileno()).st_size
        if size <= limit_bytes:
            return False
        _move(log, path, start=size - limit_bytes)
    return True


def _move(log: BinaryIO, path: Path, *, start: int) -> None:
    """What follows the first line's end after ``start`` to the older file, in the place of what
    that held.
    """
    draft = path.with_name(f"{path.name}.draft")
    try:
        with draft.open("wb") as older:
            log.seek(start)
            log.readline()
            shutil.copyfileobj(log, older, BLOCK_BYTES)
            older.flush()
            os.replace(draft, older_log(path))
            shutil.copyfileobj(log, older, BLOCK_BYTES)  # what came meanwhile
            _line_finish(log, older)
            older.flush()
            os.ftruncate(log.fileno(), 0)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _line_finish(log: BinaryIO, older: BinaryIO) -> None:
    """Copy on to the end of a line: a write over the border of two pages is read in parts. One that
    the runtime leaves unfinished, as a progress bar, is waited for until the looks are over.
    """
    for _ in range(LINE_LOOKS):
        log.seek(-1, os.SEEK_CUR)
        if log.read(1) == b"\n":
            return
        time.sleep(LINE_LOOK_S)
        shutil.copyfileobj(log, older, BLOCK_BYTES)


def older_log(path: Path) -> Path:
    """Where what ``path`` held before is."""
    return path.with_name(f"{path.name}.1")


def _end(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read(TAIL_BYTES)
    except FileNotFoundError:
        return b""
