"""What an engine keeps of a context's tokens, and the longest context that its memory holds: for
the runtime and for a dry run.

Bytes on each of n GPUs that share one engine: weights / n, keys and values of one context / n (the
heads of keys are shared out, and copied where there are fewer than GPUs), and WORK_BYTES.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
