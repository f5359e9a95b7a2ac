"""Weights under the names that a model's folder has, which vLLM's loaders know.

transformers joins weights as it loads them: of a mixture of experts each layer's into one tensor,
which no folder and no engine has under that name. Its own conversion, which ``save_pretrained``
uses, takes them apart again (``transformers.core_model_loading``).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers.core_model_loading import revert_weight_conversion

from gpu_runtime.training.lora import PlainWeight

LAYER = re.compile(r"^.*?\.\d+(?=\.)")


@dataclass(frozen=True)
class StoredPart:
    """Weights that are made together: the parameters that must be whole when ``tensors`` is
    called, and the shapes of what it returns, both by the folder's names. ``dtype`` is that of
    buffers, which keep their own; None where the trainer's is the hand-over's.
    """

    needs: list[Tensor]
    shapes: Mapping[str, Sequence[int]]
    dtype: torch.dtype | None
    tensors: Callable[[], dict[str, Tensor]]


class _Views(TorchFunctionMode):
    """A part of a tensor stays a view of it, also where the conversion would copy it into one
    piece: no second copy of the experts, and the engine reads the trainer's memory.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        return args[0] if func is Tensor.contiguous else func(*args, **(kwargs or {}))


def stored_parts(model: Any, weights: Iterable[PlainWeight]) -> Iterator[StoredPart]:
    """``weights`` by what is made together: each by itself where transformers takes the folder as
    it is, else those of each layer, its buffers apart.
    """
    converts = bool(getattr(model, "_weight_conversions", None))
    groups: dict[tuple[str, torch.dtype | None], list[PlainWeight]] = {}
    for weight in weights:
        layer = LAYER.match(weight[0]) if converts else None
        key = layer[0] if layer else weight[0], _own_dtype(weight)
        groups.setdefault(key, []).append(weight)
    for group in groups.values():
        yield _part(model, group, converts)


def _part(model: Any, group: Sequence[PlainWeight], converts: bool) -> StoredPart:
    def stored(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if not converts:
            return tensors
        with _Views():
            return dict(revert_weight_conversion(model, tensors))

    shapes = {
        name: torch.empty(getattr(needs[0], "ds_shape", needs[0].shape), device="meta")
        for name, needs, _ in group
    }
    return StoredPart(
        [parameter for _, needs, _ in group for parameter in needs],
        {name: tuple(it.shape) for name, it in stored(shapes).items()},
        _own_dtype(group[0]),
        lambda: stored({name: make().detach() for name, _, make in group}),
    )


def _own_dtype(weight: PlainWeight) -> torch.dtype | None:
    first = weight[1][0]
    return None if isinstance(first, nn.Parameter) else first.dtype
