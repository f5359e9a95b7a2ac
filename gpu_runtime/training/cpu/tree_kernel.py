"""Attention over a packed tree by ``native/tree_attention.c``: TreeAttention's values and
derivative, in one call each.

TreeAttention is a dozen operators of torch for each block of queries, and of a small model each of
them takes less time than its threads need to wake. On two cores, forward and backward of a row of 8
x 256 take a third of its time. Sums run in another order: results differ by float32's rounding.
They are the same ones for any number of threads.

Shapes: N nodes, H query heads, G key/value heads, D head size, a multiple of a vector's numbers.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor

from gpu_runtime.native.compiled import SIDE, compiled, is_suited

from .tree_blocks import KernelBlocks, Tree

NAME = "tree_attention"


class _View(ctypes.Structure):
    """``struct view`` of the C file."""

    _fields_ = [("begin", ctypes.c_void_p), ("node", ctypes.c_size_t), ("head", ctypes.c_size_t)]

    @classmethod
    def of(cls, tensor_NHD: Tensor) -> "_View":
        return cls(tensor_NHD.data_ptr(), tensor_NHD.stride(0), tensor_NHD.stride(1))


class _Attention(ctypes.Structure):
    """``struct attention`` of the C file."""

    _fields_ = [
        *((name, _View) for name in ("query", "key", "value", "grad")),
        *(
            (name, ctypes.c_void_p)
            for name in ("attended", "grad_query", "grad_key", "grad_value", "end", "blocks")
        ),
        *((name, ctypes.c_size_t) for name in ("count", "nodes", "heads", "groups", "size")),
        ("scale", ctypes.c_float),
    ]


class KernelAttention(torch.autograd.Function):
    """``attended_NHD`` of ``query_NHD``, ``key_GND``, ``value_GND``; differentiable once."""

    @staticmethod
    def forward(
        ctx: Any,
        query_NHD: Tensor,
        key_GND: Tensor,
        value_GND: Tensor,
        blocks: KernelBlocks,
        scale: float,
    ) -> Tensor:
        # A head's numbers have to lie side by side; nodes and heads may lie in any order.
        query_NHD, key_GND, value_GND = map(_with_whole_heads, (query_NHD, key_GND, value_GND))
        attended_NHD = query_NHD.new_empty(query_NHD.shape)
        _run("attend", _attention(query_NHD, key_GND, value_GND, attended_NHD, blocks, scale))
        ctx.save_for_backward(query_NHD, key_GND, value_GND, attended_NHD)
        ctx.blocks, ctx.scale = blocks, scale
        return attended_NHD

    @staticmethod
    def backward(ctx: Any, grad_NHD: Tensor) -> tuple[Tensor | None, ...]:
        query_NHD, key_GND, value_GND, attended_NHD = ctx.saved_tensors
        grad_NHD = _with_whole_heads(grad_NHD)
        grad_query = query_NHD.new_empty(query_NHD.shape)
        grad_key, grad_value = (
            key_GND.new_zeros(key_GND.shape),
            value_GND.new_zeros(value_GND.shape),
        )
        job = _attention(query_NHD, key_GND, value_GND, attended_NHD, ctx.blocks, ctx.scale)
        job.grad = _View.of(grad_NHD)
        job.grad_query, job.grad_key, job.grad_value = (
            each.data_ptr() for each in (grad_query, grad_key, grad_value)
        )
        _run("attend_back", job)
        return grad_query, grad_key, grad_value, None, None


def kernel_can(query_NHD: Tensor, tree: Tree, window: int | None, softcap: float | None) -> bool:
    """Whether the kernel computes this layer; one that hides ancestors by a window, or caps its
    scores, it does not.
    """
    return (
        softcap is None
        and (window is None or window >= tree.deepest)
        and query_NHD.dtype == torch.float32
        and query_NHD.device.type == "cpu"
        and query_NHD.shape[-1] % SIDE == 0
        and is_suited()
        and compiled(NAME) is not None
    )


def _attention(
    query_NHD: Tensor,
    key_GND: Tensor,
    value_GND: Tensor,
    attended_NHD: Tensor,
    blocks: KernelBlocks,
    scale: float,
) -> _Attention:
    nodes, heads, size = query_NHD.shape
    return _Attention(
        query=_View.of(query_NHD),
        key=_View.of(key_GND.transpose(0, 1)),
        value=_View.of(value_GND.transpose(0, 1)),
        attended=attended_NHD.data_ptr(),
        end=blocks.end_N.data_ptr(),
        blocks=ctypes.addressof(blocks.blocks),
        count=len(blocks.blocks),
        nodes=nodes,
        heads=heads,
        groups=len(key_GND),
        size=size,
        scale=scale,
    )


def _with_whole_heads(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _run(name: str, job: _Attention) -> None:
    library = compiled(NAME)
    assert library is not None, "kernel_can says whether it is there"
    if getattr(library, name)(ctypes.byref(job)):
        raise MemoryError("attention over a tree: can't allocate memory")
