"""How much memory a session will need: arithmetic on its configuration, before anything is started.

Bytes per weight, for a model of P weights (Rajbhandari et al. 2020, arXiv:1910.02054, section 3.1):
  engine         the dtype: 4 (float32) or 2 (bfloat16); on GPUs each engine of the session
  trainer        the dtype for weights and gradients; AdamW's moments in float32, 8; under bfloat16 a float32 copy, 4
  reference      the dtype again, when kl_coef is above 0 and all weights are trained; 4 more under bfloat16 where it
                 moves (reference_decay); the dtype once more for the base beside it (kl_base_coef)
  hand-over      the dtype, where a copy passes from the trainer to the engine: under ZeRO 3 and with LoRA
With LoRA gradients and moments exist for the adapters alone, which are small beside P and counted as nothing.
ZeRO shares parts of it among the ranks of a session; their sum, which is the result here, stays the same but for
the weights, of which every rank holds its own copy below stage 3.

Activations of one micro-batch: micro_batch_tokens * hidden * layers * 34 bytes at 2 bytes each (Korthikanti et al.
2022, arXiv:2205.05198, equation 2, without the attention matrix); with gradient checkpointing 2 of the 34 remain.
"""

from dataclasses import dataclass

from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import MemoryEstimate

GIB = 1 << 30
PROCESS_BYTES = 3 * (GIB // 2)  # libraries, buffers and code of the runtime, the engine and one rank; measured on a CPU
ENGINE_CACHE_BYTES = GIB  # keys and values of the engine on a CPU (gpu_runtime/engine/vllm_engine.py)
LAYER_BYTES = 34  # per token and hidden unit, at 2 bytes a value
CHECKPOINTED_BYTES = 2


@dataclass(frozen=True)
class ModelShape:
    """What the estimate needs of a model; ``hidden`` and ``layers`` are 0 where they are not known."""

    parameters: int
    hidden: int = 0
    layers: int = 0


def memory_predict(
    shape: ModelShape, config: SessionConfig, *, on_gpu: bool, trains: bool = True, engines: int = 1
) -> MemoryEstimate:
    """Bytes that the session's processes will use in all, on host and devices together; an engine's alone where it
    does not train. ``engines``: how many hold the whole model."""
    is_half = config.dtype == "bfloat16" or (config.dtype == "auto" and on_gpu)
    value = 2 if is_half else 4
    weights = shape.parameters * value
    copies = 1 if config.zero_stage == 3 else config.trainer_ranks
    trains_all = config.lora_rank == 0
    kept = LAYER_BYTES if not config.gradient_checkpointing else CHECKPOINTED_BYTES
    activations = config.micro_batch_tokens * shape.hidden * shape.layers * kept * value // 2
    mean = shape.parameters * 4 if is_half and config.reference_decay is not None else 0
    parts = {
        "engine_bytes": engines * (weights + ENGINE_CACHE_BYTES),
        "trainer_bytes": weights * copies + (weights if trains_all else 0),
        "optimizer_bytes": shape.parameters * (12 if is_half else 8) if trains_all else 0,
        "reference_bytes": weights * (2 if config.kl_base_coef > 0 else 1) + mean
        if config.kl_coef > 0 and trains_all
        else 0,
        "handover_bytes": weights if config.zero_stage == 3 or not trains_all else 0,
        "activation_bytes": activations * config.trainer_ranks,
        "process_bytes": PROCESS_BYTES,
    }
    if not trains:
        parts = {name: size if name in ("engine_bytes", "process_bytes") else 0 for name, size in parts.items()}
    return MemoryEstimate(total_bytes=sum(parts.values()), engines=engines, **parts)


def machine_least_bytes(memory: MemoryEstimate, *, nodes: int) -> int:
    """What the first of a session's ``nodes`` machines holds at least: all but other machines' ranks.

    Activations are left out: they are an upper bound, reached only by batches that fill their rows.
    """
    of_ranks = memory.trainer_bytes + memory.optimizer_bytes + memory.reference_bytes
    return memory.total_bytes - memory.activation_bytes - of_ranks * (nodes - 1) // nodes
