"""A real file system of a few megabytes, to fill up: what a full disk does to us is not to be
imagined.
"""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SIZE_BYTES = 256 << 20


class SmallDisk:
    """A file system at ``folder``. Its size is fixed; what is written to it lies in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, *, free_share: float) -> None:
        """Take all but this share of the disk."""
        usage = shutil.disk_usage(self.folder)
        with self._filler.open("wb") as file:
            size_bytes = usage.free - int(usage.total * free_share)
            try:
                os.posix_fallocate(file.fileno(), 0, size_bytes)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
                # a kernel whose tmpfs allocates nothing beforehand
                while left_bytes := size_bytes - file.tell():
                    file.write(bytes(min(left_bytes, 1 << 20)))

    def make_room(self) -> None:
        """Give back what ``fill`` took."""
        self._filler.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """A new one at ``folder``. Skips the test where file systems cannot be mounted."""
    folder.mkdir(parents=True)
    mount = [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        f"size={SIZE_BYTES},mode=700",
        "tinkerscript-test",
        str(folder),
    ]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small disk to fill needs root and the right to mount a tmpfs")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
