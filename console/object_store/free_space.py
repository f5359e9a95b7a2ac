"""Room for the embedded store: SeaweedFS stops writing when its disk is nearly full.

`weed mini` does so by itself; this module reports it in words for people. While less than 1 % of
the disk is free it only reads and deletes. It looks once a minute, so that it may stop, and begin
again, up to a minute late. A write meanwhile fails with InternalError, or, where the store has no
volume yet, gets no response: so we look first.
"""

import shutil
import time
from typing import NamedTuple

from django.conf import settings

from console.errors import DiskFull

FLOOR_SHARE = 0.01  # of the disk, not to be set with `weed mini`
WATCH_EVERY_S = 10.0


class Room(NamedTuple):
    """A disk, in bytes: what is free for us, and all of it."""

    free_bytes: int
    total_bytes: int


def room_get() -> Room:
    """The disk on which the embedded store writes."""
    folder = settings.DATA / "s3" / "data"
    usage = shutil.disk_usage(folder if folder.exists() else settings.DATA)
    return Room(usage.free, usage.total)


def shortage_find(*, size_bytes: int = 0) -> DiskFull | None:
    """Why the embedded store has no room for ``size_bytes`` more; None where it has, and where the
    store is another.
    """
    if settings.S3_ENDPOINT_URL:
        return None
    free_bytes, total_bytes = room_get()
    floor_bytes = total_bytes * FLOOR_SHARE
    if free_bytes - size_bytes >= floor_bytes:
        return None
    is_short = (
        f"has no room for {_words(size_bytes)}" if free_bytes >= floor_bytes else "is nearly full"
    )
    return DiskFull(
        f"The disk of the object store {is_short}: {_words(free_bytes)} free of "
        f"{_words(total_bytes)}, and the store "
        f"takes nothing while less than {_words(floor_bytes)} (1 %) are free.",
        hint=f"Free some of the disk of {settings.DATA}, or stop the server, move that folder to a "
        "larger disk and set "
        "TINKERSCRIPT_DATA. Within a minute of that the store writes again and sessions go on by "
        "themselves.",
        details={
            "free_bytes": free_bytes,
            "total_bytes": total_bytes,
            "floor_bytes": int(floor_bytes),
        },
    )


def room_require(*, size_bytes: int = 0) -> None:
    """Raises DiskFull unless the embedded store has room for ``size_bytes`` more."""
    if shortage := shortage_find(size_bytes=size_bytes):
        raise shortage


class FreeSpaceMonitor:
    """Reports once when free space runs out, and once when there is enough again."""

    def __init__(self) -> None:
        self._looked_at = float("-inf")
        self._is_short = False

    def look(self) -> str | None:
        """The message to log now, None for none. Cheap: it looks at the disk once per WATCH_EVERY_S
        at most.
        """
        now = time.monotonic()
        if now - self._looked_at < WATCH_EVERY_S:
            return None
        self._looked_at, was_short = now, self._is_short
        shortage = shortage_find()
        self._is_short = shortage is not None
        if shortage and not was_short:
            return f"{shortage.message} {shortage.hint}"
        if was_short and not shortage:
            return (
                f"The disk of the object store has room again: {_words(room_get().free_bytes)} "
                "free."
            )
        return None


def _words(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"
