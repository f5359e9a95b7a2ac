"""forward_backward: data in packed rows through a model, a loss that is a sum, its gradient
accumulated.

The one primitive of training. The managed loop calls it with its averages as weights, on any number
of ranks; a Tinker client with the tensors and the loss that it names.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gpu_runtime.model_interfaces import Datum

from .packing import RowKind, TreeRow, pack_row
from .tensors import RowTensors

# Of a row, before its forward pass: what makes its loss (a sum) from its scores, and what is told
# of it.
RowLoss = Callable[[RowTensors], Callable[[Tensor], tuple[Tensor, Any]]]


@dataclass(frozen=True)
class RowModel:
    """A model under training: ``scores`` is ``Policy.forward`` in whatever wraps it, ``backward``
    accumulates the gradient of a sum, or is None for a forward pass alone. Of several ranks each
    computes its share of the rows, or with ``shares_rows`` its part of each row, which the first
    one counts.
    """

    device: torch.device
    scores: Callable[[RowTensors], Tensor]
    backward: Callable[[Tensor], Any] | None = None
    rank: int = 0
    world_size: int = 1
    shares_rows: bool = False
    kind: RowKind = RowKind.TREES  # of its rows
    on_row: Callable[[], None] = field(default=lambda: None)  # called after each row


@dataclass(frozen=True)
class PassedRow:
    """A row that was computed. One that is not ``live`` is another rank's, and counts as
    nothing.
    """

    tree: TreeRow
    live: bool
    scores: Tensor
    told: Any


def rows_pass(
    model: RowModel, data: Sequence[Datum], rows: Sequence[Sequence[int]], loss: RowLoss | None
) -> Iterator[PassedRow]:
    """Compute this rank's share of ``rows`` (indices of ``data``), one at a time, as the iterator
    is taken further.

    Without ``loss`` its scores alone. A rank with no row left repeats its last one, and counts it
    as nothing, because the passes of a sharded model are collectives: every rank must take part.
    """
    for first in range(0, len(rows), 1 if model.shares_rows else model.world_size):
        mine = first if model.shares_rows else first + model.rank
        live = mine < len(rows)
        tree = pack_row(data, rows[mine if live else first], model.kind)
        row = RowTensors.of(tree, data, model.device)
        loss_of = None if loss is None else loss(row)
        scores = model.scores(row)
        value, told = (None, None) if loss_of is None else loss_of(scores)
        if model.backward is not None and value is not None:
            model.backward(value * float(live))
        yield PassedRow(
            tree, live and not (model.shares_rows and model.rank > 0), scores.detach(), told
        )
        model.on_row()


class TokenValues:
    """``values_N`` of each of ``data``, whose tokens have a target each, put together from passed
    rows on whichever rank each was computed; 0 where nothing was put.
    """

    def __init__(self, data: Sequence[Datum], device: torch.device) -> None:
        self._lengths = [len(datum.token_ids_N) for datum in data]
        self._starts = np.array([0, *itertools.accumulate(self._lengths)])
        self._flat = torch.zeros(int(self._starts[-1]), device=device)

    def put(self, tree: TreeRow, values_K: Tensor) -> None:
        """The values of the row's entries: each at its source."""
        places_K = self._starts[tree.datum_K] + tree.depth_N[tree.source_K]
        self._flat[torch.from_numpy(places_K).to(self._flat.device)] = values_K.to(self._flat.dtype)

    def arrays(self) -> list[np.ndarray]:
        """Those of all ranks, the same on each: a collective, which every rank must call. Call it
        once.
        """
        if dist.is_initialized() and dist.get_world_size() > 1:
            dist.all_reduce(self._flat)
        return np.split(self._flat.cpu().numpy(), self._starts[1:-1])
