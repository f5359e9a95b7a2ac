"""A packed tree as blocks of queries with the keys that they see: what attention over it reads.

Shapes: N nodes of a row in depth-first order. Node i sees node j iff j <= i < ``end_N[j]``, where
``end_N[j]`` is one past the subtree of j.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise

import torch
from torch import Tensor

# Queries of a block. Fewer mask less in vain, more make larger products.
BLOCK = 128


@dataclass(frozen=True)
class QueryBlock:
    """Queries [first, last) and the keys they see: ``ranges``, ascending; the first ``common`` keys
    are seen by all.

    ``hidden`` is ``[last - first, keys - common]``: true where a query does not see a key.
    """

    first: int
    last: int
    ranges: tuple[tuple[int, int], ...]
    common: int
    hidden: Tensor


class CBlock(ctypes.Structure):
    """``struct block`` of ``native/tree_attention.c``."""

    _fields_ = [
        ("key", ctypes.c_void_p),
        *((name, ctypes.c_size_t) for name in ("first", "last", "keys", "common")),
    ]


@dataclass(frozen=True)
class KernelBlocks:
    """A row's blocks as the C file reads them; ``end_N`` and ``keys`` is what they point into."""

    end_N: Tensor
    keys: tuple[Tensor, ...]
    blocks: ctypes.Array[CBlock]

    @classmethod
    def of(cls, end_N: Tensor, blocks: tuple[QueryBlock, ...]) -> "KernelBlocks":
        keys = tuple(
            torch.cat(
                [torch.arange(first, last, dtype=torch.int32) for first, last in block.ranges]
            )
            for block in blocks
        )
        pairs = zip(blocks, keys, strict=True)
        made = [
            CBlock(each.data_ptr(), it.first, it.last, len(each), it.common) for it, each in pairs
        ]
        return cls(end_N.to(torch.int32), keys, (CBlock * len(made))(*made))


@dataclass(frozen=True)
class Tree:
    """A row's blocks, in order. ``deepest`` is the most keys that one query sees."""

    blocks: tuple[QueryBlock, ...]
    deepest: int
    end_N: Tensor
    size: int
    _windowed: dict[int, tuple[QueryBlock, ...]] = field(default_factory=dict)

    @cached_property
    def for_kernel(self) -> KernelBlocks:
        """The blocks as the kernel reads them, for all layers of a row."""
        return KernelBlocks.of(self.end_N, self.blocks)

    def within(self, window: int | None) -> tuple[QueryBlock, ...]:
        """The blocks of a layer in which a query sees the last ``window`` of its ancestors, itself
        included."""
        if window is None or window >= self.deepest:
            return self.blocks
        if window not in self._windowed:
            depth_N = node_depths(self.end_N)
            self._windowed[window] = tuple(
                _within(self.end_N, depth_N, block, window) for block in self.blocks
            )
        return self._windowed[window]


def tree_of(end_N: Tensor, size: int = BLOCK) -> Tree:
    """The blocks of a row; ``end_N[j]`` is one past j's subtree: i sees j iff j <= i < end_N[j]."""
    count = len(end_N)
    blocks = tuple(
        _block(end_N, first, min(first + size, count)) for first in range(0, count, size)
    )
    deepest = max(
        (block.common + int((~block.hidden).sum(dim=1).max()) for block in blocks), default=0
    )
    return Tree(blocks, deepest, end_N, size)


def trees_joined(trees: Sequence[Tree]) -> Tree:
    """Trees one after another as one row. Each keeps its own blocks: what is computed of it has
    the same bits as alone.
    """
    end_N = ends_joined([tree.end_N for tree in trees])
    firsts = accumulate((len(tree.end_N) for tree in trees), initial=0)
    blocks = tuple(
        _moved(block, first)
        for tree, first in zip(trees, firsts, strict=False)
        for block in tree.blocks
    )
    return Tree(blocks, max(tree.deepest for tree in trees), end_N, trees[0].size)


def ends_joined(ends: Sequence[Tensor]) -> Tensor:
    """``end_N`` of trees one after another, of those of each."""
    firsts = accumulate(map(len, ends), initial=0)
    return torch.cat([end_N + first for end_N, first in zip(ends, firsts, strict=False)])


def _moved(block: QueryBlock, by: int) -> QueryBlock:
    ranges = tuple((first + by, last + by) for first, last in block.ranges)
    return replace(block, first=block.first + by, last=block.last + by, ranges=ranges)


def node_depths(end_N: Tensor) -> Tensor:
    """``depth_N``: how many ancestors a node has, which is how many before it less those whose
    subtree is over."""
    count = len(end_N)
    ended_N = torch.bincount(end_N, minlength=count + 1)[:count].cumsum(0)
    return torch.arange(count, device=end_N.device) - ended_N


def _block(end_N: Tensor, first: int, last: int) -> QueryBlock:
    keys = (end_N[:last] > first).nonzero()[:, 0]
    # Ancestors of the first query are a chain: those whose subtree holds the whole block come
    # before all others.
    common = int(((keys <= first) & (end_N[keys] >= last)).sum())
    rest, queries = keys[common:], torch.arange(first, last, device=end_N.device)[:, None]
    return QueryBlock(
        first, last, _ranges(keys), common, (rest > queries) | (queries >= end_N[rest])
    )


def _within(end_N: Tensor, depth_N: Tensor, block: QueryBlock, window: int) -> QueryBlock:
    """The block under a window. Its oldest keys are seen by its first queries alone: no key is
    common to all."""
    keys = torch.cat(
        [torch.arange(first, last, device=end_N.device) for first, last in block.ranges]
    )
    queries = torch.arange(block.first, block.last, device=end_N.device)[:, None]
    hidden = (
        (keys > queries) | (queries >= end_N[keys]) | (depth_N[queries] - depth_N[keys] >= window)
    )
    is_seen = ~hidden.all(dim=0)
    return QueryBlock(block.first, block.last, _ranges(keys[is_seen]), 0, hidden[:, is_seen])


def _ranges(keys: Tensor) -> tuple[tuple[int, int], ...]:
    """Ascending ``keys`` as half-open ranges of neighbours."""
    starts = [0, *((keys.diff() > 1).nonzero()[:, 0] + 1).tolist(), len(keys)]
    return tuple((int(keys[a]), int(keys[b - 1]) + 1) for a, b in pairwise(starts))
