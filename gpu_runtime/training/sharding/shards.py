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


def own_range(weight: Tensor) -> tuple[int, int]:
    """The first and the last element, exclusive, that this rank has of a weight; without the
    filling.
    """
    count = elements(weight)
    if not is_sharded(weight):
        return 0, count
    size = weight.ds_tensor.numel()  # type: ignore[attr-defined]
    return min(rank() * size, count), min((rank() + 1) * size, count)
