"""``x[mask]`` in a loss that a client wrote: the one operation there whose size depends on values.

It picks from ``x``, so that it is never larger than ``x``. What comes after it is walked on shapes node by node, as
soon as the values are there and before memory is spent.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tinkerscript.wire.tinker.custom_loss import LossNode

GETITEM = "operator.getitem"
META = torch.device("meta")


def mask_of(node: LossNode, args: list[Any]) -> Tensor | None:
    """The truth values by which the node picks numbers of a tensor, if it does.

    Raises IndexError for a mask beside other tensors or lists: an index like that picks more than the tensor has.
    """
    if node.target != GETITEM or len(args) != 2 or not isinstance(args[0], Tensor):
        return None
    parts = args[1] if isinstance(args[1], tuple | list) else (args[1],)
    masks = [each for each in parts if isinstance(each, Tensor) and each.dtype == torch.bool]
    if not masks:
        return None
    if len(masks) > 1 or any(isinstance(each, Tensor | list | tuple) for each in parts if each is not masks[0]):
        raise IndexError("a mask goes with slices and whole numbers, not with another tensor or list")
    return masks[0]


def index_numbers(mask: Tensor) -> int:
    """What the backward pass keeps beside the numbers that ``mask`` picks: an int64 for each of its dimensions and each
    of them, counted as two numbers of 32 bits."""
    return int(mask.count_nonzero()) * mask.ndim * 2


def shapes_of(value: Any) -> Any:
    """The same argument with tensors that have shapes and no memory."""
    match value:
        case Tensor():
            return value.detach().to(META)
        case torch.device():
            return META
        case tuple() | list():
            shapes = map(shapes_of, value)
            return list(shapes) if isinstance(value, list) else tuple(shapes)  # of a pair that torch named, too
        case dict():
            return {name: shapes_of(each) for name, each in value.items()}
        case _:
            return value


def shapes_of_all(args: list[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Both kinds of arguments of a node, without memory."""
    return shapes_of(args), {name: shapes_of(each) for name, each in kwargs.items()}
