"""Room on a volume, looked at before something large is written."""

import shutil
from pathlib import Path

from gpu_runtime.errors import DiskFull

RESERVE_BYTES = 256 << 20  # what the journal and the logs keep when weights fill the volume


def room_require(folder: Path, size_bytes: int) -> None:
    """Raises DiskFull unless the volume of ``folder`` can take ``size_bytes`` and keep its
    reserve.
    """
    folder.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < size_bytes + RESERVE_BYTES:
        raise DiskFull(
            f"{folder} has {free_bytes >> 20} MiB free; {(size_bytes + RESERVE_BYTES) >> 20} MiB "
            "are needed"
        )
