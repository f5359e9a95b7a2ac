"""The engine on a CPU turns every head of queries and keys by its position."""

from typing import Any

import pytest
import torch

# vLLM's modules warn as they are imported
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
TOKENS, SIZE, BASE = 7, 16, 1e4


def turned(values_THD: torch.Tensor) -> torch.Tensor:
    """The formula of rotary embeddings, of halves."""
    angles_TF = torch.arange(TOKENS)[:, None] / BASE ** (torch.arange(0, SIZE, 2) / SIZE)
    cos, sin = angles_TF.cos()[:, None], angles_TF.sin()[:, None]
    first, second = values_THD.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@pytest.mark.parametrize("shape", ["heads apart", "heads in a row", "a part of wider heads"])
def test_every_head_is_turned_in_place(shape: str) -> None:
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers.rotary_embedding import get_rope

    from gpu_runtime.engine.cpu.rotary_heads import _turned

    with set_current_vllm_config(VllmConfig()):
        options: Any = {"rope_parameters": {"rope_type": "default", "rope_theta": BASE}}
        layer = get_rope(SIZE, max_position=64, is_neox_style=True, **options)
    wide_THD, key_THD = torch.randn(TOKENS, 3, 2 * SIZE), torch.randn(TOKENS, 2, SIZE)
    if shape == "a part of wider heads":
        query: torch.Tensor = wide_THD[..., SIZE:]
    else:
        query = wide_THD[..., SIZE:].contiguous()
    expected = turned(query), turned(key_THD)
    if shape == "heads in a row":
        query, key_THD = query.flatten(1), key_THD.flatten(1)
    found = _turned(layer, torch.arange(TOKENS), query, key_THD)
    for given, returned, wanted in zip((query, key_THD), found, expected, strict=True):
        assert returned is not None
        torch.testing.assert_close(returned.view_as(wanted), wanted, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(given.view_as(wanted), wanted, rtol=1e-5, atol=1e-5)
