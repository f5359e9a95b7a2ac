"""Every head of queries and keys is turned by its position on a CPU, in whichever shape they are."""

from typing import Any

from torch import Tensor
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding

_turn = RotaryEmbedding.forward_cpu  # what is made right here


def rotary_install() -> None:
    """Give vLLM's operator the rows that it reads.

    vLLM 0.32.0 turns the first head alone of a tensor ``[tokens, heads, size]``, as latent
    attention (DeepSeek, GLM-4.7-Flash) and LFM2 have them. Of ``[tokens, heads * size]`` it turns
    all.
    """
    RotaryEmbedding.forward_cpu = _turned


def _turned(
    layer: Any, positions: Tensor, query: Tensor, key: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """In place, as vLLM's."""
    rows = [None if it is None else it.reshape(len(it), -1) for it in (query, key)]
    _turn(layer, positions, *rows)
    for given, row in zip((query, key), rows, strict=True):
        if given is not None and row is not None and given.data_ptr() != row.data_ptr():
            given.copy_(row.view(given.shape))
    return query, key
