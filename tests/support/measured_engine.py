"""What an engine holds in memory, told by its worker, and the engines of a session, whether one or
several.
"""

import resource
from collections.abc import Sequence
from typing import Any

from gpu_runtime.engine.replicas import Replicas


def engines_of(engine: Any) -> Sequence[Any]:
    """The VllmEngine, or those of Replicas."""
    return Replicas.of(engine).parts


def worker_memory(worker: Any) -> dict[str, int]:
    """Bytes, in the worker's process: weights, keys and values, and at most (of a CPU the whole
    process).
    """
    import torch

    runner = worker.model_runner
    found = {
        "weights": sum(each.nbytes for each in runner.get_model().parameters()),
        "cache": sum(each.nbytes for each in runner.kv_caches if isinstance(each, torch.Tensor)),
    }
    if worker.device.type == "cuda":
        return found | {"peak": torch.cuda.max_memory_allocated(worker.device)}
    return found | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}


async def engine_memory(engine: Any) -> dict[str, int]:
    """``worker_memory`` of the worker that took the most. Started with
    VLLM_ALLOW_INSECURE_SERIALIZATION=1.
    """
    found = [
        each for one in engines_of(engine) for each in await one.llm.collective_rpc(worker_memory)
    ]
    return max(found, key=lambda each: each["peak"])
