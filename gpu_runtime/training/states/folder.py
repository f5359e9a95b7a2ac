"""The folder of a state, whoever trains: one form for the managed loop and for Tinker clients.

    weights.safetensors          every trained weight as the passes use it; not where ranks have parts of weights
    optimizer-00000.safetensors  of each rank AdamW's moments (exp_avg.NAME, exp_avg_sq.NAME), and weight.NAME, in
                                 float32, where the weights above are rounded or not there
    reference-00000.safetensors  a reference that follows the policy, of each rank what it has, by number
    gradient.safetensors         a gradient that waits for its step
    gradient-00000.safetensors   the part of each rank, where there are several
    model.json                   what was trained, the step, how many ranks saved it; written last

A rank's file has of each parameter, as one row, the elements that the rank had. Where these begin
is in the file's metadata (``firsts``; 0 where it has none), so that any number of ranks, under any
stage of ZeRO, finds what it needs. No torch in here.
"""

import asyncio
from pathlib import Path

from gpu_runtime.errors import TrainerFailed

WEIGHTS, GRADIENT, ABOUT = "weights.safetensors", "gradient.safetensors", "model.json"
PARTS, REFERENCES = "optimizer*.safetensors", "reference-*.safetensors"
GRADIENTS = "gradient*.safetensors"
SEEN_S = 120.0  # NFS looks at a folder again after acdirmax, by default 60 s


class StateRefused(ValueError):
    """A folder or a file is no state's, or has not all of one."""


def part_name(rank: int) -> str:
    """The file of a rank."""
    return f"optimizer-{rank:05d}.safetensors"


def gradient_name(rank: int) -> str:
    """The file of what a rank has of a gradient that waits."""
    return f"gradient-{rank:05d}.safetensors"


def reference_name(rank: int) -> str:
    """The file of what a rank has of a moving reference."""
    return f"reference-{rank:05d}.safetensors"


async def wait_for_parts(state: Path, ranks: int) -> None:
    """Return once this node sees what every rank saved into ``state``, of which its file system may
    know a little later than the node that wrote it. Raises TrainerFailed.
    """
    deadline = asyncio.get_running_loop().time() + SEEN_S
    while len(list(state.glob(PARTS))) < ranks:
        if asyncio.get_running_loop().time() > deadline:
            raise TrainerFailed(
                f"{ranks} ranks saved {state.name}, and after {SEEN_S:g} s not all of it is seen "
                "here"
            )
        await asyncio.sleep(0.2)
