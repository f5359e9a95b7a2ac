"""vLLM's executors as engines of ours have them, named by their paths: the core's process imports
and makes them.
"""

import os
import threading

from vllm.v1.executor import uniproc_executor
from vllm.v1.executor.multiproc_executor import MultiprocExecutor
from vllm.v1.executor.uniproc_executor import UniProcExecutor

from gpu_runtime.engine.grammars.bounds import bounds_install
from gpu_runtime.engine.grammars.budget import budget_install
from gpu_runtime.engine.grammars.later import grammars_later
from gpu_runtime.failures.core_errors import core_errors_keep

IN_FILE = "file://"


class PrivateUniProcExecutor(UniProcExecutor):
    """One worker, inside the core's process, that leaves nothing behind when it is killed.

    vLLM gives it a lock for processes, a semaphore with a name in /dev/shm in a process that was
    forked by a server, and a file in the folder for temporary files; here it has a lock of threads,
    and the file beside its sockets.
    """

    def _init_executor(self) -> None:
        core_errors_keep()
        grammars_later()
        uniproc_executor.Lock = threading.Lock
        super()._init_executor()

    def _distributed_args(self) -> tuple[str, int, int]:
        method, rank, local_rank = super()._distributed_args()
        folder = os.environ.get("VLLM_RPC_BASE_PATH")
        if method.startswith(IN_FILE) and folder:
            method = f"{IN_FILE}{folder}/{os.path.basename(method)}"
        return method, rank, local_rank


class BoundedMultiprocExecutor(MultiprocExecutor):
    """Several workers in processes of their own. Grammars are followed in the core's, and bounded
    there by this.

    With one worker that process is the worker's, which is told to
    (``EngineWorker.grammars_bound``).
    """

    def _init_executor(self) -> None:
        core_errors_keep()
        budget_install()
        bounds_install()
        grammars_later()
        super()._init_executor()
