"""Unnamed snapshots for samplers, on a session's volume: those that were sampled last are kept, up
to a bound.

A folder's time of change is when it was written or last sampled. One that is being sampled is kept
in any case: the engine opens an adapter's folder when it comes to the request, and cannot go on
where it is gone.
"""

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WHOLE_KEPT = 4  # of a model of all weights, each as large as the model
ADAPTERS_KEPT, ADAPTER_BYTES_KEPT = 256, 8 << 30  # of all adapters of a session
# of a model: what its in-flight samplers follow, and what a sample that has begun may yet load
INFLIGHT_KEPT = 2


_held: Counter[Path] = Counter()  # requests under way, by their snapshot


@contextmanager
def snapshot_held(folder: Path | None) -> Iterator[None]:
    """Keep it for the block. None, of the base model, needs nothing."""
    if folder is None:
        yield
        return
    _held[folder] += 1
    try:
        yield
    finally:
        _held[folder] -= 1
        if not _held[folder]:
            del _held[folder]


def snapshot_use(folder: Path) -> bool:
    """Note that it is written or sampled now; False for one that was removed."""
    now = time.time_ns()  # the file system's own clock stands still for milliseconds
    try:
        os.utime(folder, ns=(now, now))
    except FileNotFoundError:
        return False
    return True


def snapshots_bound(snapshots: Path) -> None:
    """Remove what is beyond the bound of its kind, which the folder's name says."""
    kept, kept_bytes = {
        "whole": (WHOLE_KEPT, None),
        "adapters": (ADAPTERS_KEPT, ADAPTER_BYTES_KEPT),
    }.get(snapshots.name, (INFLIGHT_KEPT, None))
    total_bytes = 0
    finished = [folder for folder in snapshots.iterdir() if not folder.name.startswith(".")]
    last_first = sorted(finished, key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
    for place, folder in enumerate(last_first):
        if kept_bytes is not None:
            total_bytes += sum(file.stat().st_size for file in folder.iterdir())
        is_beyond = place >= kept or total_bytes > (kept_bytes or total_bytes)
        if place and is_beyond and folder not in _held:
            shutil.rmtree(folder, ignore_errors=True)


def leftovers_remove(models: Path) -> None:
    """Remove what no runtime finishes: folders in the making, and the copies of checkpoints that
    were on their way.
    """
    for pattern in ("saving-*", ".saving-*", "models/*/.state-*", "samplers/*/.*"):
        for folder in models.glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)
