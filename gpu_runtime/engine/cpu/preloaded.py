"""What the fork server of a runtime imports: to import this module is to import all of it (engine/vllm_process.py)."""

from contextlib import suppress
from importlib import import_module

from gpu_runtime.processes.progress_bars import bars_lock_set
from gpu_runtime.processes.uncollected import uncollected

# What the engine's process and the trainer's ranks import.
IMPORTED = ("vllm.v1.engine.core", "vllm.v1.worker.cpu_worker", "gpu_runtime.training.trainer")

with uncollected():
    for _name in IMPORTED:
        with suppress(ImportError):  # the process that needs it raises
            import_module(_name)
bars_lock_set()
