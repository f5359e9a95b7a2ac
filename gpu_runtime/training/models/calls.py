"""What a client's call of one model computes: its data in rows, its loss, and what is told of both.

Shapes: K targets of a row, of R nodes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gpu_runtime.model_interfaces import Datum, ForwardResult, InvalidTrainingInput, ModelCall
from gpu_runtime.training.losses import LossInputs, loss_tokens
from gpu_runtime.training.rows.packing import TreeRow, pack, prefix_order
from gpu_runtime.training.rows.row_pass import RowLoss, RowModel, rows_pass
from gpu_runtime.training.rows.tensors import RowTensors
from tinkerscript.wire.training.losses import LOSSES, TARGETS

from .data_check import data_check, loss_find, settings_check

PartT = TypeVar("PartT")


@dataclass(frozen=True)
class CallLimits:
    """What data of a base's models may be: ids below ``vocabulary``, ``longest`` tokens of a datum,
    about ``row_tokens`` of a row.
    """

    vocabulary: int
    longest: int
    row_tokens: int


def call_compute(through: RowModel, call: ModelCall, limits: CallLimits) -> ForwardResult:
    """Pass the data of ``call`` in rows. Raises InvalidTrainingInput for data, and for a loss, that
    cannot be computed.
    """
    row_loss = call_loss(call, limits, through.world_size)
    found: dict[int, np.ndarray] = {}
    total = 0.0
    data = call.data
    rows = pack(data, limits.row_tokens, prefix_order(data), through.kind)
    for passed in rows_pass(through, data, rows, row_loss):
        if passed.live:
            total += passed.told
            found |= by_datum(passed.tree, data, passed.scores)
    parts = of_ranks((total, found), through.world_size)
    outputs: dict[int, np.ndarray] = {}
    for _, own in parts:
        outputs |= own
    return call_result(call, outputs, sum(total for total, _ in parts))


def call_loss(call: ModelCall, limits: CallLimits, ranks: int = 1) -> RowLoss:
    """The loss of a row. Raises InvalidTrainingInput for its name, and for data that do not fit."""
    name, data = call.loss_fn, call.data
    loss = loss_find(name)
    settings = settings_check(name, loss, call.loss_config)
    data_check(data, name, loss, vocabulary=limits.vocabulary, longest=limits.longest)
    keys = [key for key in data[0].loss_inputs if key != TARGETS]

    def named(row: RowTensors) -> Callable[[Tensor], tuple[Tensor, float]]:
        tensors = {key: row.loss_input(key) for key in keys}

        def compute(logprobs_K: Tensor) -> tuple[Tensor, float]:
            loss_K = loss_tokens(name, LossInputs(logprobs_K, tensors, row.datum_K, settings))
            _finite_verify(loss_K, row.datum_K, ranks)
            return loss_K.sum(), float(loss_K.detach().double().sum())

        return compute

    return named


def call_result(call: ModelCall, logprobs: dict[int, np.ndarray], total: float) -> ForwardResult:
    """What the client gets: ``logprobs`` by the index of their datum, and the sum of the loss."""
    metrics = {"loss:sum": total}
    if call.loss_fn in LOSSES and LOSSES[call.loss_fn].approximates:
        metrics[f"{call.loss_fn}_is_approximated:max"] = 1.0
    return ForwardResult(
        tuple({"logprobs": logprobs[index]} for index in range(len(call.data))), metrics
    )


def by_datum(row: TreeRow, data: Sequence[Datum], scores_K: Tensor) -> dict[int, np.ndarray]:
    """By the index of a datum its values in the shape of its targets; 0 where none counts."""
    targets = [data[index].loss_inputs[TARGETS] for index in row.indices]
    values_K = scores_K.cpu().numpy()
    flat = np.zeros(sum(each.size for each in targets), values_K.dtype)
    flat[row.flat_K] = values_K
    pieces = np.split(flat, np.cumsum([each.size for each in targets])[:-1])
    return {
        index: piece.reshape(each.shape)
        for index, each, piece in zip(row.indices, targets, pieces, strict=True)
    }


def of_ranks(mine: PartT, ranks: int) -> list[PartT]:
    """What each of the ranks that compute a call has. A collective of these."""
    found = [mine] * ranks
    if ranks > 1:
        dist.all_gather_object(found, mine)
    return found


def _finite_verify(loss_K: Tensor, datum_K: Tensor, ranks: int) -> None:
    """Raises on every rank where the loss of one is not finite."""
    broken = ~torch.isfinite(loss_K.detach())
    worst = None
    if broken.any():
        at = int(broken.nonzero()[0])
        worst = int(datum_K[at]), loss_K[at].item()
    for datum, loss in filter(None, of_ranks(worst, ranks)):
        raise InvalidTrainingInput(
            f"the loss of datum {datum} is {loss}: its logprobs are too far from the model's, or "
            "an earlier step has broken the weights; nothing was accumulated"
        )
