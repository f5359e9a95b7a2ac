"""Attention over a packed tree on a GPU: FlexAttention, which skips the blocks of pairs in which nothing is visible.

The counterpart of ``cpu/tree_attention.py``, under the same rule: i sees j iff j <= i < end_N[j] and, in a layer with a
window of W, depth_N[i] - depth_N[j] < W. Registered with transformers as ``FLEX``: given a mask, transformers would use
it as it is in every layer, with no window.
"""

from dataclasses import dataclass, field

from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from transformers import AttentionInterface
from transformers.integrations.flex_attention import flex_attention_forward

from gpu_runtime.errors import ModelUnsupported

from .cpu.tree_attention import UNKNOWN_OPTIONS, node_depths

FLEX = "tree_flex"


@dataclass(frozen=True)
class FlexTree:
    """The masks of a row, one for each window that a layer asks for. ``deepest`` is the most keys that a query sees."""

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
    return create_block_mask(rule, None, None, len(end_N), len(end_N), device=end_N.device)


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: None, *,
    tree: FlexTree, scaling: float | None = None, sliding_window: int | None = None, softcap: float | None = None,
    **options: object,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """What transformers calls in every layer; ``tree`` is passed through from the call of the model."""
    if unknown := [name for name in UNKNOWN_OPTIONS if options.get(name) is not None]:
        raise ModelUnsupported(f"attention over a tree has no {', '.join(unknown)}, which a layer of this model uses")
    mask = tree.within(sliding_window)
    return flex_attention_forward(module, query, key, value, mask, scaling=scaling, softcap=softcap)


AttentionInterface.register(FLEX, _attend)
