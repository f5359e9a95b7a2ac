"""How an engine and a rank of the trainer share the memory of a GPU: for the runtime and for a dry
run.

An engine takes its part whole, as keys and values where its weights leave room. On a GPU that it
shares it gives that back while a step runs, and takes it again beside what the trainer keeps
between two steps, in bytes per weight:

  weights     2 in bfloat16, 4 in float32; under ZeRO 3 a rank's part of them
  optimizer   12: AdamW's moments and its float32 copy of the weights (Rajbhandari et al. 2020, arXiv:1910.02054,
              section 3.1), cut among the ranks; 0 with LoRA, and where they are on the host (offload_optimizer)
  reference   as the weights, where kl_coef is above 0, and what reference_decay and kl_base_coef add

The gradients are freed with the step (DeepSpeed's stage_1_and_2.py). AdamW's moments exist from the
first step on: what fits only without them fails at the second.
"""

from tinkerscript.wire.config import SessionConfig

# of a GPU of its own, vLLM's default; the most of one that is shared
OWN_SHARE, SHARED_SHARE = 0.92, 0.5
# CUDA contexts of engine and rank, NCCL's buffers, what torch does not give back: a round number,
# not measured.
RESERVE_BYTES = 4 << 30


def trainer_kept_bytes(config: SessionConfig, parameters: int, value_bytes: int) -> int:
    """What a rank keeps on a GPU between two steps, for a model of that many weights of
    ``value_bytes`` each.
    """
    ranks = config.trainer_ranks
    weights = parameters * value_bytes // (ranks if config.zero_stage == 3 else 1)
    if config.lora_rank:
        return weights
    optimizer = 0 if config.offload_optimizer else 12 * parameters // ranks
    return weights + optimizer + reference_bytes(config, parameters, value_bytes)


def reference_bytes(config: SessionConfig, parameters: int, value_bytes: int) -> int:
    """A rank's reference weights, for kl_coef."""
    if config.kl_coef == 0 or config.lora_rank:
        return 0
    mean = parameters * 4 if value_bytes == 2 and config.reference_decay is not None else 0
    whole = parameters * value_bytes * (2 if config.kl_base_coef > 0 else 1) + mean
    return -(-whole // config.trainer_ranks) if config.zero_stage == 3 else whole


def engine_room_bytes(memory_bytes: int, kept_bytes: int | None) -> int:
    """What an engine may use of a GPU of ``memory_bytes``: beside a trainer that keeps
    ``kept_bytes``; None: alone.
    """
    if kept_bytes is None:
        return int(memory_bytes * OWN_SHARE)
    return max(0, min(int(memory_bytes * SHARED_SHARE), memory_bytes - kept_bytes - RESERVE_BYTES))
