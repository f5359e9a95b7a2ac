"""What the fork server of a runtime imports: to import this module is to import all of it
(engine/vllm_process.py).
"""

from contextlib import suppress
from importlib import import_module

from gpu_runtime.processes.paused_gc import gc_paused
from gpu_runtime.processes.starting import bars_lock_set

# What the engine's process and the trainer's ranks import. Not engine/cpu/worker.py, which changes
# vLLM as it is imported, but what it needs; and what vLLM imports only as it loads a model.
IMPORTED = (
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
    "vllm.distributed.elastic_ep.elastic_execute",
    "vllm.model_executor.layers.quantization.online.fp8",
    "vllm.model_executor.layers.quantization.online.moe_base",
    "gpu_runtime.engine.cpu.flat_layers",
    "gpu_runtime.engine.cpu.inverse_sampling",
    "gpu_runtime.engine.cpu.seeded_prompts",
    "gpu_runtime.engine.executors",
    "gpu_runtime.engine.raw_logprobs",
    "gpu_runtime.weights.packed_loader",
    "gpu_runtime.weights.vllm_receiver",
    "gpu_runtime.training.trainer",
)

with gc_paused():
    for _name in IMPORTED:
        with suppress(ImportError):  # the process that needs it raises
            import_module(_name)
bars_lock_set()
