"""What vLLM is told of an engine of ours: the same on each of its nodes."""

from typing import TYPE_CHECKING

from gpu_runtime.engine.allowed_recorder import BACKEND
from gpu_runtime.engine.vllm_process import dtype_name, placed
from gpu_runtime.weights.formats import AWAITED, PACKED
from tinkerscript.processes.tracing import is_traced
from tinkerscript.wire.config import SessionConfig

from .part import EXECUTOR, EnginePart, part_options

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.engine.async_llm import AsyncLLM

TOP_LOGPROBS = 20  # alternatives of a token; the gateway refuses more


def engine_config(
    model_path: str, config: SessionConfig, device: str, *, shares_device: bool = False, tensor_parallel: int = 1,
    memory_share: float | None = None, part: EnginePart | None = None, awaits_weights: bool = False,
) -> "VllmConfig":  # fmt: skip
    """Of an engine on this machine alone, or of its ``part`` on this node. vLLM has been imported.

    ``awaits_weights``: it is handed its first weights, and reads none where it can do so. Raises ValueError for a model
    that vLLM does not take.
    """
    # Here and not above: vLLM reads its environment when it is imported.
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext

    processes = placed(tensor_parallel=tensor_parallel, shares_device=shares_device, memory_share=memory_share)
    arguments = AsyncEngineArgs(
        model=model_path,
        dtype=dtype_name(config, device),
        max_model_len=config.max_context_length,
        seed=config.seed,
        # On a CPU, and at the sizes that a CPU can train, compiling costs a minute and gains nothing.
        enforce_eager=device == "cpu",
        max_num_seqs=256,
        worker_extension_cls="gpu_runtime.engine.vllm_worker.EngineWorker",
        generation_config="vllm",  # sampling defaults come from the request, not from the model's folder
        logprobs_mode="processed_logprobs",  # of the distribution that was sampled from: see interfaces.Delta
        max_logprobs=TOP_LOGPROBS + 1,  # and the one of raw_logprobs.py
        structured_outputs_config={"backend": BACKEND},
        load_format=_load_format(device, tensor_parallel, part, awaits_weights=awaits_weights),
        **(processes | (part_options(part) if part else {})),
    )
    found = arguments.create_engine_config(UsageContext.ENGINE_CONTEXT, headless=part is not None and part.rank > 0)
    if part is not None:
        vars(found.parallel_config)["distributed_executor_backend"] = EXECUTOR
    return found


def _load_format(device: str, tensor_parallel: int, part: EnginePart | None, *, awaits_weights: bool) -> str:
    if device != "cpu" or tensor_parallel > 1 or part is not None:  # of one whole model in one process
        return "auto"
    return AWAITED if awaits_weights else PACKED


def llm_start(config: "VllmConfig") -> "AsyncLLM":
    """vLLM's front of an engine, once its processes have loaded the model. Raises RuntimeError."""
    from .front import front_start

    return front_start(config, keeps_times=is_traced())  # of each call: see call_spans
