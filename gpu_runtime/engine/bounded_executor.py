"""vLLM's executor of several workers, in whose process grammars are followed: it bounds them there.

With one worker the core's process is the worker's, which is told to (``EngineWorker.grammars_bound``).
"""

from vllm.v1.executor.multiproc_executor import MultiprocExecutor

from gpu_runtime.engine.grammars.budget import budget_install


class BoundedMultiprocExecutor(MultiprocExecutor):
    """Named by its path in the engine's options, so that the core's process imports and makes it."""

    def _init_executor(self) -> None:
        budget_install()
        super()._init_executor()
