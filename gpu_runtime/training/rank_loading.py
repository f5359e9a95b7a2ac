"""The priority at which a rank reads weights or a state."""

from collections.abc import Callable
from typing import TypeVar

from gpu_runtime.processes.giving_way import give_way

from .rank_spec import RankSpec

ResultT = TypeVar("ResultT")


def loading(spec: RankSpec, work: Callable[[], ResultT]) -> ResultT:
    """What ``work`` returns, which reads weights or a state while an engine beside it serves calls: it gives way.

    Not among several ranks, whose groups have threads that would keep the priority at which they were made; on a GPU
    there is nothing to gain.
    """
    return give_way(work) if spec.device == "cpu" and spec.world_size == 1 else work()
