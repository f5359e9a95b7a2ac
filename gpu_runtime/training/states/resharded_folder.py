"""The folder in which another number of ranks finds a state in its own form, for as long as they
load it.

The process that starts the ranks makes and removes it: whatever ends a rank, nothing is left on the
volume.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gpu_runtime.errors import TrainerFailed
from gpu_runtime.health.file_progress import report_file_progress
from gpu_runtime.health.free_room import room_require

ABOUT = "trainer.json"  # how many ranks saved a state
FOLDER = "state"  # DeepSpeed's tag
WHOLE_MODEL = "mp_rank_00_model_states.pt"  # of ZeRO 1 and 2: the weights as the passes use them
PREFIX = "resharded-"
SEEN_S = 120.0  # NFS looks at a folder again after acdirmax, by default 60 s


def saved_by(state: Path) -> int:
    """How many ranks saved ``state``."""
    ranks: int = json.loads((state / ABOUT).read_text())["world_size"]
    return ranks


async def wait_for_parts(state: Path, ranks: int) -> None:
    """Return once this node sees what every rank saved into ``state``, of which its file system may
    know a little later than the node that wrote it. Raises TrainerFailed.
    """
    deadline = asyncio.get_running_loop().time() + SEEN_S
    while len(list((state / FOLDER).glob("*optim_states.pt"))) < ranks:
        if asyncio.get_running_loop().time() > deadline:
            raise TrainerFailed(
                f"{ranks} ranks saved {state.name}, and after {SEEN_S:g} s not all of it is seen "
                "here"
            )
        await asyncio.sleep(0.2)


def resharded_path(state: Path) -> Path:
    """Where the copy of ``state`` for another number of ranks lies."""
    return state.with_name(PREFIX + state.name)


@asynccontextmanager
async def room_to_reshard(
    state: Path, ranks: int, on_progress: Callable[[], None]
) -> AsyncIterator[None]:
    """While ``ranks`` ranks load ``state``: a folder for their copy where they need one, removed
    after the block.

    ``on_progress`` is called as its files grow. Raises DiskFull before anything is written.
    """
    for left in state.parent.glob(f"{PREFIX}*"):  # of a runtime that was killed in here
        await asyncio.to_thread(shutil.rmtree, left, ignore_errors=True)
    if saved_by(state) == ranks:
        yield
        return
    room_require(state.parent, resharded_bytes(state, ranks))
    copy = resharded_path(state)
    (copy / FOLDER).mkdir(parents=True)
    try:
        async with report_file_progress(copy, on_progress):
            yield
    finally:
        await asyncio.to_thread(shutil.rmtree, copy, ignore_errors=True)


def resharded_bytes(state: Path, ranks: int) -> int:
    """About how large the copy of ``state`` is: optimizer states in other parts, and weights for
    every rank that has a file of its own.
    """
    sizes = {path.name: path.stat().st_size for path in (state / FOLDER).glob("*.pt")}
    optimizer = sum(size for name, size in sizes.items() if name.endswith("optim_states.pt"))
    weights = [size for name, size in sizes.items() if name.endswith("model_states.pt")]
    of_ranks = any("pp_rank" in name for name in sizes if name.endswith("model_states.pt"))
    return optimizer + max(weights, default=0) * (ranks if of_ranks else 1)
