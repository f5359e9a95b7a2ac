"""What a newer version of a file has that an older one has not, as a file of its own: blocks, and
where they stand.

    header   magic, size of the newer version        run   offset, size, and that many bytes

SQLite changes pages in place and adds others at the end: between two copies of a journal few blocks
differ.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

HEADER, RUN = struct.Struct(">8sQ"), struct.Struct(">QI")
MAGIC = b"TSCHANGE"
BLOCK_BYTES = 4096  # SQLite's page
READ_BYTES = 1 << 20


def changes_write(older: Path, newer: Path, changes: Path) -> int:
    """Write to ``changes`` what makes ``newer`` of ``older``; returns the bytes that differ, 0
    where both are equal.
    """
    differing = 0
    with older.open("rb") as before, newer.open("rb") as after, changes.open("wb") as out:
        out.write(HEADER.pack(MAGIC, newer.stat().st_size))
        offset = 0
        while new := after.read(READ_BYTES):
            old = before.read(READ_BYTES)
            if new != old:
                for start, end in _runs(old, new):
                    out.write(RUN.pack(offset + start, end - start))
                    out.write(new[start:end])
                    differing += end - start
            offset += len(new)
    return differing + max(0, older.stat().st_size - newer.stat().st_size)


def changes_apply(path: Path, changes: Path) -> None:
    """Make of the older version at ``path`` the newer one. Raises ValueError for a file that holds
    no changes.
    """
    with path.open("r+b") as file, changes.open("rb") as read:
        magic, size_bytes = HEADER.unpack(_exactly(read.read(HEADER.size), HEADER.size))
        if magic != MAGIC:
            raise ValueError(f"{changes.name} does not begin as a file of changes does")
        file.truncate(size_bytes)
        while head := read.read(RUN.size):
            offset, length = RUN.unpack(_exactly(head, RUN.size))
            file.seek(offset)
            file.write(_exactly(read.read(length), length))


def _runs(old: bytes, new: bytes) -> Iterator[tuple[int, int]]:
    """From where to where ``new`` differs, in whole blocks; neighbours are one."""
    begun: int | None = None
    for start in range(0, len(new), BLOCK_BYTES):
        differs = new[start : start + BLOCK_BYTES] != old[start : start + BLOCK_BYTES]
        if differs and begun is None:
            begun = start
        elif not differs and begun is not None:
            yield begun, start
            begun = None
    if begun is not None:
        yield begun, len(new)


def _exactly(data: bytes, size_bytes: int) -> bytes:
    if len(data) != size_bytes:
        raise ValueError(
            f"{len(data)} bytes stand where {size_bytes} belong: the file of changes was cut off"
        )
    return data
