"""Attention over a packed tree on a GPU: FlexAttention, which skips the blocks of pairs in which
nothing is visible.

The counterpart of ``cpu/tree_attention.py``, under the same rule: i sees j iff j <= i < end_N[j]
and, in a layer with a window of W, depth_N[i] - depth_N[j] < W. Registered with transformers as
``FLEX``: given a mask, transformers would use it as it is in every layer, with no window. Which
blocks of pairs are skipped is computed from each block's least and greatest end and depth: torch's
own way of finding out compares every pair of tokens, gigabytes in a long row.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from transformers import AttentionInterface
from transformers.integrations.flex_attention import flex_attention_forward

from gpu_runtime.errors import ModelUnsupported

from .cpu.tree_attention import UNKNOWN_OPTIONS
from .cpu.tree_blocks import node_depths

FLEX = "tree_flex"
BLOCK = 128  # tokens; FlexAttention's own default
# By itself torch takes its decoding kernel for a row of less than a block, and finds none for some
# shapes.
KERNEL = {"BACKEND": "TRITON"}
# With and without a gradient, a window, a cap, more than one block: each is compiled once. At
# torch's limit of 8 it would go on without compiling, with every pair's score in memory.
torch._dynamo.config.recompile_limit = 64  # noqa: SLF001 - it has no public name


@dataclass(frozen=True)
class FlexTree:
    """The masks of a row, one for each window that a layer asks for. ``deepest`` is the most keys
    that a query sees.
    """

    end_N: Tensor
    deepest: int
    _masks: dict[int | None, BlockMask] = field(default_factory=dict)

    def within(self, window: int | None) -> BlockMask:
        """The mask of a layer with this window."""
        needed = window if window is not None and window < self.deepest else None
        if needed not in self._masks:
            self._masks[needed] = block_mask(self.end_N, needed)
        return self._masks[needed]


def flex_tree_of(end_N: Tensor) -> FlexTree:
    """The masks of a row, made when they are asked for."""
    return FlexTree(end_N, int(node_depths(end_N).max()) + 1 if len(end_N) else 0)


def block_mask(end_N: Tensor, window: int | None = None) -> BlockMask:
    """The mask for FlexAttention."""
    depth_N = node_depths(end_N)
    limit = len(end_N) if window is None else window

    def sees(_batch: Tensor, _head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i < end_N[j])

    def sees_near(_batch: Tensor, _head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i < end_N[j]) & (depth_N[i] - depth_N[j] < limit)

    rule = sees if window is None else sees_near
    some_QK, all_QK = visible_blocks(end_N, depth_N, limit)
    return BlockMask.from_kv_blocks(
        *_ordered(some_QK & ~all_QK),
        *_ordered(all_QK),
        BLOCK_SIZE=BLOCK,
        mask_mod=rule,
        seq_lengths=(len(end_N), len(end_N)),
    )


def visible_blocks(end_N: Tensor, depth_N: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """``[Q, K]`` of each block of queries and of keys: whether a pair in it may be visible, whether
    all are.

    Where a window ends, a block may be said to have a visible pair that has none: the rule is then
    applied in vain.
    """
    blocks = -(-len(end_N) // BLOCK)
    first_Q = torch.arange(blocks, device=end_N.device) * BLOCK
    last_Q = first_Q + BLOCK - 1  # past the row in an incomplete block, which is never seen whole
    (end_low_K, end_high_K), (depth_low_K, depth_high_K) = (
        _range_by_block(each, blocks) for each in (end_N, depth_N)
    )
    before_QK = first_Q[:, None] > first_Q[None, :]
    some_QK = (
        before_QK
        & (end_high_K > first_Q[:, None])
        & (depth_low_K[:, None] - depth_high_K[None, :] < window)
    )
    all_QK = (
        before_QK
        & (end_low_K > last_Q[:, None])
        & (depth_high_K[:, None] - depth_low_K[None, :] < window)
    )
    return some_QK | torch.eye(blocks, dtype=torch.bool, device=end_N.device), all_QK


def _range_by_block(values_N: Tensor, blocks: int) -> tuple[Tensor, Tensor]:
    """Least and greatest value of each block."""
    padding = values_N[-1:].expand(blocks * BLOCK - len(values_N))
    low, high = torch.cat([values_N, padding]).view(blocks, BLOCK).aminmax(dim=1)
    return low, high


def _ordered(chosen_QK: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of keys each block of queries has, and the blocks' numbers, those first."""
    numbers_QK = chosen_QK.int().argsort(dim=1, descending=True, stable=True)
    return chosen_QK.sum(dim=1, dtype=torch.int32)[None, None], numbers_QK.int()[
        None, None
    ].contiguous()


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    tree: FlexTree,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **options: object,
) -> tuple[Tensor, Tensor | None]:
    """What transformers calls in every layer; ``tree`` is passed through from the call of the
    model.
    """
    if unknown := [name for name in UNKNOWN_OPTIONS if options.get(name) is not None]:
        raise ModelUnsupported(
            f"attention over a tree has no {', '.join(unknown)}, which a layer of this model uses"
        )
    mask = tree.within(sliding_window)
    return flex_attention_forward(
        module, query, key, value, mask, scaling=scaling, softcap=softcap, kernel_options=KERNEL
    )


AttentionInterface.register(FLEX, _attend)
