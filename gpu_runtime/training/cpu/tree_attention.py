"""Attention over a packed tree on a CPU: a block of queries meets the keys that one of them can
see, and no others.

A dense N x N mask would make SDPA compute every pair, although of a group's answers none sees
another. Here the queries [first, last) of a row take the keys of their common ancestors whole,
without a mask, and those that only some of them see with one. In depth-first order both are a few
contiguous ranges. Scores of one block exist at a time, in the forward and, recomputed, in the
backward pass: softmax(Q K^T) V and its derivative, FlashAttention's arithmetic (Dao et al. 2022,
arXiv:2205.14135, section 3 and appendix B) without its tiling of the keys. Where ``tree_kernel.py``
can compute a layer, it does.

A sliding window of W lets a node see the ancestors that are less than W tokens before it: a
difference of depths, not of positions in the row. Scores may be capped, c tanh(s / c) (Gemma 2,
arXiv:2408.00118, section 2).

Registered with transformers as ``ATTENTION``; each layer passes its window and its cap. Shapes: N
nodes, H query heads, G key/value heads, R = H / G, D head size, Q = R x queries of a block, K its
keys.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from gpu_runtime.errors import ModelUnsupported

from .onednn_linear import products
from .tree_blocks import QueryBlock, Tree
from .tree_kernel import KernelAttention, kernel_can

ATTENTION = "tree_blocks"
UNKNOWN_OPTIONS = ("s_aux", "position_bias")  # attention sinks, biases by distance


class TreeAttention(torch.autograd.Function):
    """``attended_NHD`` of ``query_NHD``, ``key_GND``, ``value_GND``; differentiable once."""

    @staticmethod
    def forward(
        ctx: Any,
        query_NHD: Tensor,
        key_GND: Tensor,
        value_GND: Tensor,
        tree: Tree,
        scale: float,
        window: int | None = None,
        softcap: float | None = None,
    ) -> Tensor:
        query_NHD = query_NHD * scale  # here, where it is small: scores need no pass of their own
        # latent attention has values of another size than keys (DeepSeek)
        attended_NHD = query_NHD.new_empty(*query_NHD.shape[:2], value_GND.shape[-1])
        blocks = tree.within(window)
        for block in blocks:
            query_GQD = _grouped(query_NHD, block, len(key_GND))
            scores_GQK = _scores(query_GQD, _gathered(key_GND, block), softcap)
            weights_GQK = _weights(scores_GQK, block)
            _put(attended_NHD, block, products(weights_GQK, _gathered(value_GND, block).mT))
        ctx.save_for_backward(query_NHD, key_GND, value_GND, attended_NHD)
        ctx.blocks, ctx.scale, ctx.softcap = blocks, scale, softcap
        return attended_NHD

    @staticmethod
    def backward(ctx: Any, grad_NHD: Tensor) -> tuple[Tensor | None, ...]:
        query_NHD, key_GND, value_GND, attended_NHD = ctx.saved_tensors
        groups = len(key_GND)
        # The derivative of softmax, dS = P (dP - sum(P dP)); the sum over keys is one over D, of dO
        # O, and far shorter.
        sums_NH1 = (grad_NHD * attended_NHD).sum(dim=-1, keepdim=True)
        grad_query, grad_key, grad_value = map(torch.zeros_like, (query_NHD, key_GND, value_GND))
        for block in ctx.blocks:
            query_GQD, grad_GQD, sums_GQ1 = (
                _grouped(each, block, groups) for each in (query_NHD, grad_NHD, sums_NH1)
            )
            key_GKD, value_GKD = _gathered(key_GND, block), _gathered(value_GND, block)
            scores_GQK = _scores(query_GQD, key_GKD, ctx.softcap)
            # The derivative of c tanh(s / c) is 1 - tanh^2; taken before the scores become weights
            # in place.
            cap_slope_GQK = None if ctx.softcap is None else 1 - (scores_GQK / ctx.softcap).square()
            weights_GQK = _weights(scores_GQK, block)
            _add(grad_value, block, weights_GQK.mT @ grad_GQD)
            # zero where a key is hidden
            slopes_GQK = products(grad_GQD, value_GKD).sub_(sums_GQ1).mul_(weights_GQK)
            if cap_slope_GQK is not None:
                slopes_GQK.mul_(cap_slope_GQK)
            _put(grad_query, block, products(slopes_GQK, key_GKD.mT))
            _add(grad_key, block, slopes_GQK.mT @ query_GQD)
        return (
            grad_query.mul_(ctx.scale),
            grad_key,
            grad_value,
            *[None] * (len(ctx.needs_input_grad) - 3),
        )


def _scores(query_GQD: Tensor, key_GKD: Tensor, softcap: float | None) -> Tensor:
    """Q K^T, capped where the layer has a cap; Q = R x queries rows per group."""
    scores_GQK = products(query_GQD, key_GKD)
    return scores_GQK if softcap is None else scores_GQK.div_(softcap).tanh_().mul_(softcap)


def _weights(scores_GQK: Tensor, block: QueryBlock) -> Tensor:
    """softmax over the visible keys, for which the hidden ones of ``scores_GQK`` are
    overwritten.
    """
    rows = block.last - block.first
    by_query = scores_GQK.view(len(scores_GQK), -1, rows, scores_GQK.shape[-1])
    by_query[..., block.common :].masked_fill_(block.hidden, -torch.inf)
    return torch.softmax(scores_GQK, dim=-1, dtype=torch.float32).to(scores_GQK.dtype)


def _grouped(tensor_NHD: Tensor, block: QueryBlock, groups: int) -> Tensor:
    """The block's rows as ``[G, R * queries, D]``: query heads that share a key head stand under
    one another.
    """
    rows_QHD = tensor_NHD[block.first : block.last]
    return rows_QHD.transpose(0, 1).reshape(groups, -1, tensor_NHD.shape[-1])


def _put(target_NHD: Tensor, block: QueryBlock, rows_GQD: Tensor) -> None:
    heads, size = target_NHD.shape[1:]
    target_NHD[block.first : block.last] = rows_GQD.view(heads, -1, size).transpose(0, 1)


def _gathered(tensor_GND: Tensor, block: QueryBlock) -> Tensor:
    pieces = [tensor_GND[:, first:last] for first, last in block.ranges]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)


def _add(target_GND: Tensor, block: QueryBlock, keys_GKD: Tensor) -> None:
    done = 0
    for first, last in block.ranges:
        target_GND[:, first:last] += keys_GKD[:, done : done + last - first]
        done += last - first


def _attend(
    module: nn.Module,
    query_1HND: Tensor,
    key_1GND: Tensor,
    value_1GND: Tensor,
    attention_mask: None,
    *,
    tree: Tree,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **options: object,
) -> tuple[Tensor, None]:
    """What transformers calls in every layer; ``tree`` is passed through from the call of the
    model.
    """
    if unknown := [name for name in UNKNOWN_OPTIONS if options.get(name) is not None]:
        raise ModelUnsupported(
            f"attention over a tree has no {', '.join(unknown)}, which a layer of this model uses"
        )
    scale = query_1HND.shape[-1] ** -0.5 if scaling is None else scaling
    query_NHD, key_GND, value_GND = query_1HND[0].transpose(0, 1), key_1GND[0], value_1GND[0]
    is_one_size = query_NHD.shape[-1] == value_GND.shape[-1]
    if is_one_size and kernel_can(query_NHD, tree, sliding_window, softcap):
        return KernelAttention.apply(query_NHD, key_GND, value_GND, tree.for_kernel, scale)[
            None
        ], None
    key_GND, value_GND = key_GND.contiguous(), value_GND.contiguous()
    return TreeAttention.apply(query_NHD, key_GND, value_GND, tree, scale, sliding_window, softcap)[
        None
    ], None


AttentionInterface.register(ATTENTION, _attend)
