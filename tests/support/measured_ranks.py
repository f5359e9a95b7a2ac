"""Ranks of the trainer that also say how much memory they took, on a device or on the host."""

import resource
from contextlib import contextmanager
from functools import partial

from gpu_runtime.training import ranks as ranks_module
from gpu_runtime.training.rank_process import rank_load, rank_main
from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.training.ranks import TrainerRanks


def measured_load(spec: RankSpec, on_row):
    """``rank_load``, of a trainer that has ``memory_peak`` too."""
    trainer = rank_load(spec, on_row)
    trainer.memory_peak = partial(memory_peak, spec)
    return trainer


def memory_peak(spec: RankSpec) -> int:
    """Bytes: of the rank that took the most, what torch had allocated on its device, or of a CPU's
    rank all of it.
    """
    import torch
    import torch.distributed as dist

    if spec.device == "cuda":
        own = torch.cuda.max_memory_allocated()
    else:
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    most = torch.tensor([own], device="cuda" if spec.device == "cuda" else "cpu")
    if spec.world_size > 1:
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return int(most)


@contextmanager
def ranks_measured():
    """While the block runs, ranks that are started are such."""
    before = ranks_module.rank_main
    ranks_module.rank_main = partial(rank_main, load=measured_load)
    try:
        yield
    finally:
        ranks_module.rank_main = before


async def memory_of(trainer: TrainerRanks) -> int:
    """``memory_peak`` of ranks that were started inside the block."""
    return await trainer.call("memory_peak", deadline_s=60)
