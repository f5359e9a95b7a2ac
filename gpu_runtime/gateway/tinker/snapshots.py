"""Unnamed snapshots for samplers, on a session's volume: those that were sampled last are kept, up to a bound.

A folder's time of change is when it was written or last sampled.
"""

import os
import shutil
from pathlib import Path

WHOLE_KEPT = 4  # of a model of all weights, each as large as the model
ADAPTERS_KEPT, ADAPTER_BYTES_KEPT = 256, 8 << 30  # of all adapters of a session
INFLIGHT_KEPT = 2  # of a model: what its in-flight samplers follow, and what a sample that has begun may yet load


def snapshot_use(folder: Path) -> bool:
    """Note that it is sampled; False for one that was removed."""
    try:
        os.utime(folder)
    except FileNotFoundError:
        return False
    return True


def snapshots_bound(snapshots: Path) -> None:
    """Remove what is beyond the bound of its kind, which the folder's name says."""
    kept, kept_bytes = {"whole": (WHOLE_KEPT, None), "adapters": (ADAPTERS_KEPT, ADAPTER_BYTES_KEPT)}.get(
        snapshots.name, (INFLIGHT_KEPT, None)
    )
    total_bytes = 0
    last_first = sorted(snapshots.iterdir(), key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
    for place, folder in enumerate(last_first):
        if kept_bytes is not None:
            total_bytes += sum(file.stat().st_size for file in folder.iterdir())
        if place and (place >= kept or total_bytes > (kept_bytes or total_bytes)):
            shutil.rmtree(folder, ignore_errors=True)
