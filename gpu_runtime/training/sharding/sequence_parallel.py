"""Ulysses: the ranks share the tokens of each row, where otherwise each has rows of its own.

A rank has the hidden states of one part of a row, in equal parts of which the last is filled up.
Before attention parts are exchanged for heads: each rank then has all tokens of some heads,
computes those as one rank would, and exchanges back. So a row may be as many times as long as there
are ranks (Jacobs et al. 2023, "DeepSpeed Ulysses", arXiv:2309.14509). The exchange is DeepSpeed's
operator, which has a derivative.

Queries, keys and values travel in one exchange, keys and values copied where there are fewer heads
of them than ranks. Shapes: n tokens of a rank, N of the row, R ranks, H query heads, G heads of
keys, D head size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from gpu_runtime.errors import ModelUnsupported

Attend = Callable[..., tuple[Tensor, Any]]


@dataclass(frozen=True)
class SharedRow:
    """A row of ``count`` tokens of which rank ``rank`` of ``ranks`` has ``size``; ``tree`` is of
    the whole row.
    """

    tree: Any
    count: int
    rank: int
    ranks: int

    @classmethod
    def of(cls, tree: Any, count: int) -> "SharedRow":
        """As this rank has it."""
        return cls(tree, count, dist.get_rank(), dist.get_world_size())

    @property
    def size(self) -> int:
        """Tokens of each rank, filled up."""
        return -(-self.count // self.ranks)

    def part(self, values_N: Tensor, filling: int = 0) -> Tensor:
        """This rank's of the row's values, ``filling`` where the row is over."""
        shape = self.size * self.ranks - self.count, *values_N.shape[1:]
        padding = values_N.new_full(shape, filling)
        return torch.cat([values_N, padding])[self.rank * self.size : (self.rank + 1) * self.size]

    def own(self, source_K: Tensor) -> tuple[Tensor, int]:
        """Which of the row's trained tokens this rank computes, those whose position is in its
        part; and how many.

        Filled up with others, so that every rank computes as many: the head's weights may be
        gathered for it.
        """
        ranks_K = source_K // self.size
        own = (ranks_K == self.rank).nonzero()[:, 0]
        most = int(ranks_K.bincount().max()) if len(source_K) else 0
        return torch.cat([own, own.new_zeros(most - len(own))]), len(own)

    def place(self, source_K: Tensor) -> Tensor:
        """Where in this rank's part a position is; anywhere where it is in another's."""
        return (source_K - self.rank * self.size).clamp(0, self.size - 1)


class WholeOfParts(torch.autograd.Function):
    """``[..., K]`` of all ranks from what each computed, zeros elsewhere. Each rank then computes
    the same loss of it, so the derivative of a rank's own entries is all of it, and nothing is
    exchanged backwards.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        whole = own.clone()
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def attention_shared(inner: Attend) -> Attend:
    """``inner`` over the whole row with this rank's heads, for a call whose ``tree`` is a
    SharedRow.
    """

    def attend(
        module: nn.Module,
        query_1HnD: Tensor,
        key_1GnD: Tensor,
        value_1GnD: Tensor,
        mask: None,
        *,
        tree: SharedRow,
        **options: Any,
    ) -> tuple[Tensor, None]:
        copies = max(1, tree.ranks // key_1GnD.shape[1])
        parts = [
            query_1HnD[0],
            *(each[0].repeat_interleave(copies, dim=0) for each in (key_1GnD, value_1GnD)),
        ]
        heads = [len(part) // tree.ranks for part in parts]
        # [R, heads of a rank, n, D], in which the heads of q, k and v that a rank gets stand
        # together
        for_ranks = torch.cat([part.view(tree.ranks, -1, *part.shape[1:]) for part in parts], dim=1)
        exchanged_hND = _exchange(for_ranks).transpose(0, 1).flatten(1, 2)[:, : tree.count]
        query_hND, key_gND, value_gND = exchanged_hND.split(heads)
        attended_1NhD, _ = inner(
            module, query_hND[None], key_gND[None], value_gND[None], mask, tree=tree.tree, **options
        )
        padding = (0, 0, 0, 0, 0, tree.size * tree.ranks - tree.count)
        whole_RnhD = nn.functional.pad(attended_1NhD[0], padding).unflatten(
            0, (tree.ranks, tree.size)
        )
        back_RnhD = _exchange(whole_RnhD)  # of each rank's heads, my tokens
        return back_RnhD.transpose(0, 1).flatten(1, 2)[None], None

    return attend


def attention_register(name: str) -> str:
    """Register the shared form of the attention that transformers has under ``name``; returns its
    name.
    """
    # seconds, which a process without ranks saves
    from deepspeed.sequence.layer import register_all_to_all_group

    AttentionInterface.register(
        shared := f"{name}_shared", attention_shared(ALL_ATTENTION_FUNCTIONS[name])
    )
    register_all_to_all_group(dist.group.WORLD)
    return shared


def heads_verify(config: Any) -> None:
    """Raises ModelUnsupported where the heads of a model cannot be shared out evenly among the
    ranks.
    """
    ranks, heads = dist.get_world_size(), config.num_attention_heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    if heads % ranks or (keys % ranks and ranks % keys):
        raise ModelUnsupported(
            f"sequence_parallel shares attention heads out evenly: {heads} heads, {keys} of keys, "
            f"among {ranks} ranks"
        )


def _exchange(for_ranks: Tensor) -> Tensor:
    """What each rank has for this one, by rank, of ``[R, ...]`` what this one has for each."""
    from deepspeed.sequence.layer import _dim_zero_all_to_all

    return _dim_zero_all_to_all(dist.group.WORLD, for_ranks.contiguous())
