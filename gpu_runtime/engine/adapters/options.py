"""What vLLM is told of an engine with one base model and room for adapters on it."""

from typing import Any

from gpu_runtime.engine.vllm_process import dtype_name, placed
from gpu_runtime.errors import ModelUnsupported
from tinkerscript.wire.config import SessionConfig

RANKS = (8, 16, 32, 64, 128, 256)  # for which vLLM has room to be made
MAX_COLUMNS = 256  # log-probabilities of one place; callers ask for as many at most
ADAPTERS_AT_ONCE, ADAPTERS_IN_MEMORY = 4, 32  # in one batch; loaded: others are read again from their folders


def sampler_options(
    model_path: str,
    config: SessionConfig,
    device: str,
    *,
    shares_device: bool = False,
    memory_share: float | None = None,
) -> dict[str, Any]:
    """The arguments of vLLM's AsyncEngineArgs. Raises ModelUnsupported for weights of a type that adapters have not."""
    if device != "cpu" and (dtype := dtype_name(config, device)) == "float32":
        raise ModelUnsupported(f"on a GPU vLLM computes adapters in bfloat16 and not in {dtype}: leave dtype at auto")
    return {
        "model": model_path,
        "dtype": dtype_name(config, device),
        "max_model_len": config.max_context_length,
        "seed": config.seed,
        "enforce_eager": device == "cpu",
        "max_num_seqs": 256,
        "worker_extension_cls": "gpu_runtime.engine.adapters.worker.AdapterWorker",
        "generation_config": "vllm",  # sampling defaults come from the request, not from the model's folder
        "logprobs_mode": "processed_logprobs",  # of the distribution that was sampled from
        "max_logprobs": MAX_COLUMNS,
        "disable_log_stats": True,
        "enable_lora": True,
        "max_lora_rank": next(rank for rank in RANKS if rank >= config.lora_rank),
        "max_loras": ADAPTERS_AT_ONCE,
        "max_cpu_loras": ADAPTERS_IN_MEMORY,
        # It never sleeps: samples come while models are trained.
        **placed(tensor_parallel=1, shares_device=shares_device, memory_share=memory_share)
        | {"enable_sleep_mode": False},
    }
