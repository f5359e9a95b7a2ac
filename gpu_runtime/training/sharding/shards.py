"""The parts of a weight that the ranks have under ZeRO 3: of it as one row, equal parts, the last
one filled up.
"""

from collections.abc import Iterable

import torch.distributed as dist
from torch import Tensor


def is_sharded(weight: Tensor) -> bool:
    """Whether this rank has a part of it alone."""
    return hasattr(weight, "ds_id")


def elements(weight: Tensor) -> int:
    """Of the weight as a whole."""
    count: int = getattr(weight, "ds_numel", weight.numel())
    return count


def rank() -> int:
    """0 where there is one process."""
    return dist.get_rank() if dist.is_initialized() else 0


def wholes_drop(weights: Iterable[Tensor]) -> None:
    """Leave the ranks nothing but their parts, so that what is next computed or handed over is put
    together of these.

    DeepSpeed keeps small weights whole from their first use to its next step
    (stage3_param_persistence_threshold).
    """
    for weight in weights:
        if is_sharded(weight):
            weight.partition()  # type: ignore[attr-defined]


def own_part(weight: Tensor, whole: Tensor) -> Tensor:
    """What this rank has of ``whole``, which is shaped as ``weight`` is as a whole; without the
    filling.
    """
    row = whole.reshape(-1)
    if not is_sharded(weight):
        return row
    size = weight.ds_tensor.numel()  # type: ignore[attr-defined]
    return row[min(rank() * size, row.numel()) : (rank() + 1) * size]


def whole_of(weight: Tensor, part: Tensor) -> Tensor:
    """The tensor, shaped as ``weight`` is as a whole, of which each rank has ``part``. A
    collective.
    """
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    row = part.new_empty(ranks * part.numel())
    if ranks == 1:
        row.copy_(part)
    else:
        dist.all_gather_into_tensor(row, part.contiguous())
    return row[: elements(weight)].view(weight.ds_shape)  # type: ignore[attr-defined]
