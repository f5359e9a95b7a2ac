"""Attention over a packed tree on a CPU: a block of queries meets the keys that one of them can see, and no others.

A dense N x N mask would make SDPA compute every pair, although of a group's answers none sees another. Here the queries
[first, last) of a row take the keys of their common ancestors whole, without a mask, and those that only some of them
see with one. In depth-first order both are a few contiguous ranges. Scores of one block exist at a time, in the forward
and, recomputed, in the backward pass: softmax(Q K^T) V and its derivative, FlashAttention's arithmetic
(Dao et al. 2022, arXiv:2205.14135, section 3 and appendix B) without its tiling of the keys.

Registered with transformers as ``ATTENTION``. Shapes: N nodes, H query heads, G key/value heads, R = H / G, D head
size, Q = R x queries of a block, K its keys.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from .linear import products

ATTENTION = "tree_blocks"
# Queries of a block. Fewer mask less in vain, more make larger products.
BLOCK = 128


@dataclass(frozen=True)
class QueryBlock:
    """Queries [first, last) and the keys they see: ``ranges``, ascending; the first ``common`` keys are seen by all.

    ``hidden`` is ``[last - first, keys - common]``: true where a query does not see a key.
    """

    first: int
    last: int
    ranges: tuple[tuple[int, int], ...]
    common: int
    hidden: Tensor


@dataclass(frozen=True)
class Tree:
    """A row's blocks, in order. ``deepest`` is the most keys that one query sees."""

    blocks: tuple[QueryBlock, ...]
    deepest: int


def tree_of(end_N: Tensor, size: int = BLOCK) -> Tree:
    """The blocks of a row; ``end_N[j]`` is one past j's subtree: i sees j iff j <= i < end_N[j]."""
    count = len(end_N)
    blocks = tuple(_block(end_N, first, min(first + size, count)) for first in range(0, count, size))
    return Tree(blocks, max((block.common + int((~block.hidden).sum(dim=1).max()) for block in blocks), default=0))


def _block(end_N: Tensor, first: int, last: int) -> QueryBlock:
    keys = (end_N[:last] > first).nonzero()[:, 0]
    # Ancestors of the first query are a chain: those whose subtree holds the whole block come before all others.
    common = int(((keys <= first) & (end_N[keys] >= last)).sum())
    rest, queries = keys[common:], torch.arange(first, last, device=end_N.device)[:, None]
    starts = [0, *((keys.diff() > 1).nonzero()[:, 0] + 1).tolist(), len(keys)]
    ranges = tuple((int(keys[a]), int(keys[b - 1]) + 1) for a, b in pairwise(starts))
    return QueryBlock(first, last, ranges, common, (rest > queries) | (queries >= end_N[rest]))


class TreeAttention(torch.autograd.Function):
    """``attended_NHD`` of ``query_NHD``, ``key_GND``, ``value_GND``; differentiable once."""

    @staticmethod
    def forward(ctx: Any, query_NHD: Tensor, key_GND: Tensor, value_GND: Tensor, tree: Tree, scale: float) -> Tensor:
        query_NHD = query_NHD * scale  # here, where it is small: scores need no pass of their own
        attended_NHD = torch.empty_like(query_NHD)
        for block in tree.blocks:
            query_GQD = _grouped(query_NHD, block, len(key_GND))
            weights_GQK = _weights(query_GQD, _gathered(key_GND, block), block)
            _put(attended_NHD, block, products(weights_GQK, _gathered(value_GND, block).mT))
        ctx.save_for_backward(query_NHD, key_GND, value_GND, attended_NHD)
        ctx.tree, ctx.scale = tree, scale
        return attended_NHD

    @staticmethod
    def backward(ctx: Any, grad_NHD: Tensor) -> tuple[Tensor | None, ...]:
        query_NHD, key_GND, value_GND, attended_NHD = ctx.saved_tensors
        groups = len(key_GND)
        # The derivative of softmax, dS = P (dP - sum(P dP)); the sum over keys is one over D, of dO O, and far shorter.
        sums_NH1 = (grad_NHD * attended_NHD).sum(dim=-1, keepdim=True)
        grad_query, grad_key, grad_value = map(torch.zeros_like, (query_NHD, key_GND, value_GND))
        for block in ctx.tree.blocks:
            query_GQD, grad_GQD, sums_GQ1 = (_grouped(each, block, groups) for each in (query_NHD, grad_NHD, sums_NH1))
            key_GKD, value_GKD = _gathered(key_GND, block), _gathered(value_GND, block)
            weights_GQK = _weights(query_GQD, key_GKD, block)
            _add(grad_value, block, weights_GQK.mT @ grad_GQD)
            slopes_GQK = products(grad_GQD, value_GKD).sub_(sums_GQ1).mul_(weights_GQK)  # zero where a key is hidden
            _put(grad_query, block, products(slopes_GQK, key_GKD.mT))
            _add(grad_key, block, slopes_GQK.mT @ query_GQD)
        return grad_query.mul_(ctx.scale), grad_key, grad_value, None, None


def _weights(query_GQD: Tensor, key_GKD: Tensor, block: QueryBlock) -> Tensor:
    """softmax(Q K^T) over the visible keys; Q = R x queries rows per group."""
    scores_GQK = products(query_GQD, key_GKD)
    rows = block.last - block.first
    by_query = scores_GQK.view(len(scores_GQK), -1, rows, scores_GQK.shape[-1])
    by_query[..., block.common :].masked_fill_(block.hidden, -torch.inf)
    return torch.softmax(scores_GQK, dim=-1, dtype=torch.float32).to(query_GQD.dtype)


def _grouped(tensor_NHD: Tensor, block: QueryBlock, groups: int) -> Tensor:
    """The block's rows as ``[G, R * queries, D]``: query heads that share a key head stand under one another."""
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
    module: nn.Module, query_1HND: Tensor, key_1GND: Tensor, value_1GND: Tensor, attention_mask: None, *,
    scaling: float, tree: Tree, **options: object,
) -> tuple[Tensor, None]:  # fmt: skip
    """What transformers calls in every layer; ``tree`` is passed through from the call of the model."""
    unknown = [name for name in ("softcap", "s_aux", "position_bias") if options.get(name) is not None]
    window = options.get("sliding_window")
    if unknown or (isinstance(window, int) and window < tree.deepest):
        raise NotImplementedError(f"attention over a tree has no {', '.join(unknown) or 'sliding window'}")
    query_NHD, key_GND, value_GND = query_1HND[0].transpose(0, 1), key_1GND[0].contiguous(), value_1GND[0].contiguous()
    return TreeAttention.apply(query_NHD, key_GND, value_GND, tree, scaling)[None], None


AttentionInterface.register(ATTENTION, _attend)
