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

# Of the room on the volume, free or taken by them, which the clients share alike. Of each kind the
# last LEAST_KEPT of a client stay whatever their size: a model of all weights is as large as many
# adapters.
SNAPSHOTS_PART = 0.25
LEAST_KEPT, MOST_KEPT = 2, 1024
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


def snapshots_folder(models: Path, client: str, kind: str) -> Path:
    """Where those of a client are: ``whole``, ``adapters``, or of one model ``inflight-...``."""
    return models / "samplers" / client / kind


def snapshots_bound(snapshots: Path) -> None:
    """Remove what is beyond the bound, of one client and kind (snapshots_folder)."""
    finished = [folder for folder in snapshots.iterdir() if not folder.name.startswith(".")]
    last_first = sorted(finished, key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
    if snapshots.name in ("whole", "adapters"):
        beyond = last_first[_kept(last_first, snapshots.parent.parent) :]
    else:
        beyond = last_first[INFLIGHT_KEPT:]
    for folder in beyond:
        if folder not in _held:
            shutil.rmtree(folder, ignore_errors=True)


def _kept(last_first: list[Path], clients: Path) -> int:
    """How many of a client's snapshots have room."""
    sizes = [sum(file.stat().st_size for file in folder.iterdir()) for folder in last_first]
    room = (shutil.disk_usage(clients).free + sum(sizes)) * SNAPSHOTS_PART
    share, total, kept = room / len([*clients.iterdir()]), 0, 0
    for size in sizes[:MOST_KEPT]:
        total += size
        if total > share:
            break
        kept += 1
    return max(kept, LEAST_KEPT)


def leftovers_remove(models: Path) -> None:
    """Remove what no runtime finishes: folders in the making, and the copies of checkpoints that
    were on their way.
    """
    for pattern in ("saving-*", ".saving-*", "models/*/.state-*", "samplers/*/*/.*"):
        for folder in models.glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)
