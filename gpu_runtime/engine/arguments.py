"""What vLLM is told of an engine of ours, and how its processes are started."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_runtime.engine.experts.recorder import recording_set
from gpu_runtime.engine.grammars.allowed_recorder import BACKEND
from gpu_runtime.engine.served.adapter_folders import adapters_room, room_rank
from gpu_runtime.engine.vllm_process import (
    child_variables,
    executor,
    started_with,
    vllm_import,
)
from gpu_runtime.errors import EngineDead, EngineUnsupported, ModelUnsupported
from gpu_runtime.health.stack_dumps import stacks_folder
from gpu_runtime.placement import dtype_name
from gpu_runtime.processes.starting import kept_from_children
from gpu_runtime.weights.formats import AWAITED, PACKED
from tinkerscript.processes.tracing import is_traced
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.device_memory import OWN_SHARE, SHARED_SHARE
from tinkerscript.wire.training.models.mixtures import NO_KERNEL, mixture_of

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.engine.async_llm import AsyncLLM

START_S = 900.0  # of an engine with a large model
MAX_COLUMNS = 256  # log-probabilities of one place; callers ask for as many at most


@dataclass(frozen=True)
class EngineSpec:
    """One engine: its model, the options of its session, and what it has of this machine.

    ``gpus`` are what its processes may see, the engine's own first; none: whatever this process
    sees. ``adapters``: with room for those of ``config.lora_rank``; such an engine never sleeps:
    samples come while models are trained. ``tensor_parallel`` processes share each layer, every one
    on a device of its own: the first of ``gpus``, of whose memory they take ``memory_share`` (None:
    not planned). ``awaits_weights``: it is handed its first weights before anything is sampled, and
    reads none where it can do so.
    """

    model_path: str
    config: SessionConfig
    device: str
    gpus: tuple[str, ...] = ()
    adapters: bool = False
    shares_device: bool = False
    tensor_parallel: int = 1
    memory_share: float | None = None
    awaits_weights: bool = False


def engine_arguments(spec: EngineSpec) -> dict[str, Any]:
    """The arguments of vLLM's AsyncEngineArgs, for an engine on this machine.

    Raises ModelUnsupported for weights of a type that adapters have not.
    """
    model_path, config, on_cpu = spec.model_path, spec.config, spec.device == "cpu"
    dtype = dtype_name(config, spec.device)
    if spec.adapters and not on_cpu and dtype == "float32":
        raise ModelUnsupported(
            f"on a GPU vLLM computes adapters in bfloat16 and not in {dtype}: leave dtype at auto"
        )
    if spec.adapters and on_cpu and mixture_of(Path(model_path)) is not None:
        raise ModelUnsupported(NO_KERNEL)
    # one whole model in one process
    is_packed = on_cpu and spec.tensor_parallel == 1
    worker = "cpu.worker.CpuWorker" if on_cpu else "vllm_worker.EngineWorker"
    usual_share = SHARED_SHARE if spec.shares_device else OWN_SHARE
    arguments: dict[str, Any] = {
        "model": model_path,
        "dtype": dtype,
        "max_model_len": config.max_context_length,
        "seed": config.seed,
        # On a CPU, and at the sizes that a CPU can train, compiling costs a minute and gains
        # nothing.
        "enforce_eager": on_cpu,
        "max_num_seqs": 256,
        "worker_extension_cls": f"gpu_runtime.engine.{worker}",
        "language_model_only": True,  # of a folder with a tower the text side is served
        # sampling defaults come from the request, not from the model's folder
        "generation_config": "vllm",
        # of the distribution that was sampled from: see interfaces.Delta
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": MAX_COLUMNS,
        "structured_outputs_config": {"backend": BACKEND},
        "load_format": (AWAITED if spec.awaits_weights else PACKED) if is_packed else "auto",
        "distributed_executor_backend": executor(spec.tensor_parallel),
        "tensor_parallel_size": spec.tensor_parallel,
        "enable_sleep_mode": spec.shares_device,
        "gpu_memory_utilization": usual_share if spec.memory_share is None else spec.memory_share,
    }
    if spec.adapters:
        rank = room_rank(config.lora_rank)
        at_once, loaded = adapters_room(Path(model_path), rank, spec.device)
        arguments |= {
            "enable_lora": True,
            "max_lora_rank": rank,
            "max_loras": at_once,
            "max_cpu_loras": loaded,
            "enable_sleep_mode": False,
            # of a mixture as peft writes them, whatever its own files have
            "enable_mixed_moe_lora_format": True,
        }
    if on_cpu and _is_latent(model_path):
        arguments["enable_prefix_caching"] = False
    return arguments


def _is_latent(model_path: str) -> bool:
    """Whether a folder's attention is latent. On a CPU vLLM 0.32 keeps no prefixes of such models,
    and decides so after a hybrid among them (Kimi Linear) was given blocks for prefixes, which ends
    it.
    """
    config = Path(model_path, "config.json")
    fields = json.loads(config.read_text()) if config.is_file() else {}
    return bool((fields | (fields.get("text_config") or {})).get("kv_lora_rank"))


def engine_config(spec: EngineSpec) -> "VllmConfig":
    """vLLM's own configuration, of ``engine_arguments``. vLLM has been imported.

    Raises ModelUnsupported; ValueError for a model that vLLM does not take.
    """
    # Here and not above: vLLM reads its environment when it is imported.
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext

    arguments = AsyncEngineArgs(**engine_arguments(spec))
    found = arguments.create_engine_config(UsageContext.ENGINE_CONTEXT)
    record_where_asked(found, spec.config, adapters=spec.adapters)
    return found


def record_where_asked(found: "VllmConfig", config: SessionConfig, *, adapters: bool) -> None:
    """Have the engine of a mixture record experts. What Tinker clients sample (``adapters``) has no
    place for them on their wire.
    """
    if config.routing_replay and not adapters and found.model_config.is_moe:
        recording_set(found)


async def llm_start(spec: EngineSpec) -> "AsyncLLM":
    """vLLM's front of an engine, once its processes have loaded the model.

    Raises EngineDead, EngineUnsupported, ModelUnsupported.
    """
    await asyncio.to_thread(vllm_import, spec.device)
    try:
        found = engine_config(spec)
        with started_with(child_variables(spec.device, spec.gpus)):
            async with asyncio.timeout(START_S):
                return await asyncio.to_thread(kept_from_children()(_front), found)
    except ValueError as refusal:  # of its configuration, before any process is started
        raise ModelUnsupported(f"vLLM does not take this model: {str(refusal)[:500]}") from refusal
    except (RuntimeError, TimeoutError) as error:
        raise EngineDead(f"the engine did not start: {error}") from error


async def llm_prepare(llm: "AsyncLLM") -> None:
    """Install what is ours in the engine's processes. Raises EngineUnsupported."""
    folder = stacks_folder()
    for refusal in await llm.collective_rpc(
        "worker_prepare", args=(str(folder) if folder else None,)
    ):
        if refusal:
            raise EngineUnsupported(
                f"the engine has another part than it is written for: {refusal}"
            )


def _front(config: "VllmConfig") -> "AsyncLLM":
    from .front import front_start

    return front_start(config, keeps_times=is_traced())  # of each call: see call_spans
