"""What the kernels of a plain layer ask of vLLM's layer, by hand, and the formulas of its parts in
float64.
"""

from types import SimpleNamespace

import torch
from torch import Tensor

from gpu_runtime.weights.packed_linear import PackedLinear, library, panels_write

EPSILON, PLACES = 1e-5, 50


def linear(rows: int, columns: int) -> SimpleNamespace:
    """Of random weights, packed as the engine packs them."""
    weight_NK = torch.randn(rows, columns) / columns**0.5
    packed = PackedLinear(library(), (rows, columns))
    panels_write(list(packed.jobs([weight_NK])))
    return SimpleNamespace(cpu_linear=packed, weight=weight_NK, input_size=columns)


def norm(width: int) -> SimpleNamespace:
    """Of random weights."""
    return SimpleNamespace(weight=torch.randn(width), variance_epsilon=EPSILON)


def layer_make(
    *, width=48, inner=96, heads=3, kept=2, size=32, **rotary: object
) -> SimpleNamespace:
    """What is asked of vLLM's layer."""
    angles = torch.arange(PLACES)[:, None] * 0.9 ** torch.arange(size // 2)
    turns = torch.cat([angles.cos(), angles.sin()], dim=1)
    fields = {
        "is_neox_style": True,
        "rotary_dim": size,
        "head_size": size,
        "cos_sin_cache": turns,
    } | rotary
    return SimpleNamespace(
        input_layernorm=norm(width),
        post_attention_layernorm=norm(width),
        self_attn=SimpleNamespace(
            qkv_proj=linear((heads + 2 * kept) * size, width), o_proj=linear(width, heads * size),
            num_heads=heads, num_kv_heads=kept, head_dim=size, rotary_emb=SimpleNamespace(**fields),
        ),
        mlp=SimpleNamespace(gate_up_proj=linear(2 * inner, width), down_proj=linear(width, inner)),
    )  # fmt: skip


def normed(total: Tensor, norm: SimpleNamespace) -> Tensor:
    """``total`` divided by its root mean square, times the norm's weight."""
    return (
        total / (total.square().mean(dim=1, keepdim=True) + EPSILON).sqrt() * norm.weight.double()
    )


def product(inputs: Tensor, linear: SimpleNamespace) -> Tensor:
    """``inputs`` times the linear layer's weight."""
    return inputs @ linear.weight.double().T


def turned(heads_NHD: Tensor, cos_sin_cache: Tensor, positions_N: Tensor) -> Tensor:
    """Each head's halves turned by the angles of its row's position."""
    low, high = heads_NHD.chunk(2, -1)
    cosine, sine = (each[positions_N][:, None].double() for each in cos_sin_cache.chunk(2, -1))
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)
