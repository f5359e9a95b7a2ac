"""How engines and the ranks of a trainer share a session's GPUs and their memory, and the longest
context that their memory holds: for the runtime and for a dry run.

An engine takes its part whole, as keys and values where its weights leave room. On a GPU that it
shares it gives that back while a step runs, and takes it again beside what the trainer keeps
between two steps, in bytes per weight:

  weights     2 in bfloat16, 4 in float32; under ZeRO 3 a rank's part of them
  optimizer   12: AdamW's moments and its float32 copy of the weights (Rajbhandari et al. 2020, arXiv:1910.02054,
              section 3.1), cut among the ranks; 0 with LoRA, and where they are on the host (offload_optimizer)
  reference   as the weights, where kl_coef is above 0, and what reference_decay and kl_base_coef add

The gradients are freed with the step (DeepSpeed's stage_1_and_2.py). AdamW's moments exist from the
first step on: what fits only without them fails at the second.

An engine takes bytes on each of its n GPUs: weights / n, keys and values of one context / n (the
heads of keys are shared out, and copied where there are fewer than GPUs), and WORK_BYTES.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinkerscript.wire.config import SessionConfig

# vLLM pads a vocabulary to a multiple of 64, which it must share out evenly
SIZES = (1, 2, 4, 8, 16)


def layers_divide(count: int, *, heads: int, key_heads: int, intermediate: int) -> bool:
    """Whether vLLM can share out layers of these sizes among ``count``; heads of keys are copied
    where they are few.
    """
    has_keys = key_heads % count == 0 or count % key_heads == 0
    return count in SIZES and heads % count == 0 and intermediate % count == 0 and has_keys


def engine_device_count(config: SessionConfig, devices: int) -> tuple[int, bool]:
    """On how many of a machine's ``devices`` GPUs engines run, and whether the trainer's ranks use
    the same ones.

    Every rank has one. What is left is the engines'; where nothing is left, or by
    ``placement="shared"``, engines and ranks share those of the ranks.
    """
    ranks = config.trainer_ranks // config.nodes
    is_shared = config.placement == "shared" or devices <= ranks
    return (ranks if is_shared else devices - ranks), is_shared


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


# of a GPU: activations, CUDA graphs, buffers of NCCL. A round number, not measured.
WORK_BYTES = 2 << 30
BLOCK = 16  # tokens that vLLM keeps together on a GPU
FULL = ("full_attention", "attention")  # layers by config.json that read every token


@dataclass(frozen=True)
class TokenValues:
    """Numbers that an engine keeps of each token, keys and values of its layers.

    ``is_whole``: the formula of this file holds for them. It does not for layers with a window,
    which keep fewer tokens, for those with a state of a fixed size, and for compressed keys.
    """

    count: int = 0
    is_whole: bool = True


def token_values(fields: Mapping[str, Any], *, has_windows: bool) -> TokenValues:
    """Of a model by its ``config.json``, the text part's fields among them; 0 where they do not
    give it. Layers that do not read every token count as nothing where the file names them.

    ``layer_types`` names what each layer reads; ``sliding_window_pattern``: one in so many has no
    window. ``kv_lora_rank``: layers keep one compressed vector and the part of a key with positions
    (DeepSeek-V2, arXiv:2405.04434, section 2.1), which is not shared out.
    """

    def size(name: str, default: int = 0) -> int:
        value = fields.get(name)
        return value if type(value) is int else default

    layers, heads, types = (
        size("num_hidden_layers"),
        size("num_attention_heads"),
        fields.get("layer_types"),
    )
    is_whole = not has_windows
    if isinstance(types, list) and types:
        layers = sum(each in FULL for each in types)
        is_whole = layers == len(types)
    elif has_windows and (pattern := size("sliding_window_pattern")):
        layers //= pattern
    if compressed := size("kv_lora_rank"):
        return TokenValues(layers * (compressed + size("qk_rope_head_dim")), is_whole=False)
    width = size("head_dim", size("hidden_size") // heads if heads else 0)
    return TokenValues(2 * layers * size("num_key_value_heads", heads) * width, is_whole)


def longest_context(
    room_bytes: int, weight_bytes: int, token_bytes: int, *, spread: int = 1, key_heads: int = 1
) -> int:
    """The longest context that an engine over ``spread`` GPUs holds, of each of which it may use
    ``room_bytes``; 0 where not even its weights fit.

    ``token_bytes``: keys and values of one token, in all of the model's ``key_heads``.
    """
    left = room_bytes - WORK_BYTES - weight_bytes // spread
    of_one = -(-token_bytes // min(spread, key_heads))
    return max(0, left // of_one // BLOCK) * BLOCK
