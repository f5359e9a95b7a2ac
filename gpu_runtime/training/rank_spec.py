"""What one rank of the trainer is given at start. No torch in here: the parent process imports it
too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from gpu_runtime.processes.low_priority import run_at_low_priority
from tinkerscript.wire.config import SessionConfig

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class RankSpec:
    """What a rank is given at start.

    ``rendezvous_path`` is where ranks find each other (processes/rendezvous.py); a process without
    a group does not read it. ``device`` is "cpu" or "cuda"; ``threads`` is its share of the cores.
    """

    base_model_path: str
    config: SessionConfig
    rank: int
    world_size: int
    rendezvous_path: str
    device: str
    threads: int
    gpus: tuple[str, ...] = ()  # the devices it may see; empty: those of its parent
    shares_device: bool = False  # one GPU for the engine and the trainer
    node: str = ""  # the machine it is on, where the ranks are on several
    # the address of another of them: the ranks meet over the interface that leads there
    peer: str = ""

    @property
    def local_rank(self) -> int:
        """Its number among the ranks of its node, which is that of its device there too."""
        return self.rank % (self.world_size // self.config.nodes)

    @property
    def torch_device(self) -> str:
        """As torch names its device."""
        return f"cuda:{self.local_rank}" if self.device == "cuda" else "cpu"


def loading(spec: RankSpec, work: Callable[[], ResultT]) -> ResultT:
    """What ``work`` returns, which reads weights or a state while an engine beside it serves calls:
    it gives way.

    Not among several ranks, whose groups have threads that would keep the priority at which they
    were made; on a GPU there is nothing to gain.
    """
    return run_at_low_priority(work) if spec.device == "cpu" and spec.world_size == 1 else work()
