"""vLLM's worker on a CPU, as one of several nodes has it."""

import multiprocessing
import os
import threading
from datetime import timedelta
from multiprocessing.connection import wait

from torch import distributed
from vllm.v1.worker.cpu_worker import CPUWorker

from gpu_runtime.processes.rendezvous import rendezvous_open

from .heap import heap_return
from .part import RENDEZVOUS, network_choose, part_of
from .queue_keys import queues_protect

# Seconds that a worker waits for the others, at the start and in a layer. The last resort: a node
# that is lost is noticed by its line (training/nodes/line.py).
COLLECTIVE_S = 900.0


class NodeWorker(CPUWorker):
    """Meets the others by a file, and ends with the process that started it, whatever it waits
    for.
    """

    def init_device(self) -> None:
        """As vLLM's, which makes the process group at a port that is open to everyone unless there
        is one.
        """
        _end_with_parent()
        heap_return()
        folder, peer = part_of(self.vllm_config)
        network_choose(peer)
        # Here too: the first node's worker is in a process of its own, and its groups have queues
        # between nodes. Of nodes that share their memory, as in a test on one machine, these are
        # none.
        queues_protect(folder)
        world = self.parallel_config.world_size
        store = rendezvous_open(str(folder / RENDEZVOUS), world)
        # By its module's name, under which it is watched (process_groups.py).
        distributed.init_process_group(
            "gloo",
            store=store,
            rank=self.rank,
            world_size=world,
            timeout=timedelta(seconds=COLLECTIVE_S),
        )
        super().init_device()


def _end_with_parent() -> None:
    """A core that is killed would leave its worker waiting for a node that is lost."""
    if (parent := multiprocessing.parent_process()) is None:
        return  # on another node, where the line ends it
    sentinel = parent.sentinel

    def follow() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=follow, name="ends-with-parent", daemon=True).start()
