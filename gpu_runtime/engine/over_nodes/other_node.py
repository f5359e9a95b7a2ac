"""What runs on each node but the first: a worker of vLLM's, in the process that the runtime started
there.
"""

import os
import signal
from multiprocessing import Pipe, get_context
from pathlib import Path
from typing import Any, Protocol

from gpu_runtime.engine.arguments import engine_config
from gpu_runtime.engine.vllm_process import child_variables, vllm_import
from gpu_runtime.errors import PlacementImpossible

from .part import EnginePart, network_choose
from .queue_keys import queues_protect

# of its machine, not of this one
OF_THE_RUNTIME = ("VLLM_RPC_BASE_PATH", "VLLM_HOST_IP", "GLOO_SOCKET_IFNAME")


class Line(Protocol):
    """As much as is needed here of the line to the runtime."""

    def send(self, message: object) -> None:
        """Pass a pair to the runtime."""
        ...


def other_node_main(line: Line, part: EnginePart) -> None:
    """Be ``part`` of the engine until the runtime goes away. It says why it is none where it ends
    before.
    """
    # Until then a notice is the runtime's: vLLM sets a handler that would end the worker at once.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for name in OF_THE_RUNTIME:
        os.environ.pop(name, None)
    os.environ.update(child_variables("cpu", ()))
    try:
        network_choose(part.peer)
    except PlacementImpossible as refusal:
        line.send(("refused", f"node {part.node}: {refusal}"))
        return
    vllm_import("cpu")
    from vllm.v1.executor.multiproc_executor import WorkerProc

    queues_protect(Path(part.folder))
    config = engine_config(part.model_path, part.config, "cpu", part=part)
    # vLLM's executor would start this worker in a process of its own, that lives on where the
    # executor is killed.
    told_ready, ready = Pipe(duplex=False)
    settings: dict[str, Any] = {
        "vllm_config": config, "local_rank": 0, "rank": part.rank, "is_driver_worker": False,
        "distributed_init_method": "", "input_shm_handle": None,  # both come from the first node
        "shared_worker_lock": get_context("spawn").Lock(), "ready_pipe": ready, "death_pipe": None,
    }  # fmt: skip
    try:
        WorkerProc.worker_main(**settings)
    finally:
        told_ready.close()
        line.send(
            (
                "failed",
                f"node {part.node}: its part of the engine ended; the session's log says why",
            )
        )
