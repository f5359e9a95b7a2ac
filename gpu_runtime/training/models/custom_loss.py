"""A loss that a client wrote: its graph computed on the log-probabilities of one datum at a time, on the CPU.

Before anything is computed the graph is walked on torch's meta device, which has shapes and no memory: what would need
more than is allowed, or whose size depends on values, is refused. The one exception is ``x[mask]``: from there on each
node is walked by itself, just before it is computed. Only what ``tinkerscript.wire.tinker.custom_loss``
lists is called. Shapes: N tokens of a datum, K targets of a token, E targets of a row.
"""

import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gpu_runtime.model_interfaces import TARGETS, Datum, InvalidTrainingInput, LossConfig
from tinkerscript.wire.tinker.custom_loss import (
    FLOATS,
    GETATTR,
    WHOLE_NUMBER,
    CustomLoss,
    CustomLossRefused,
    LossNode,
    loss_unpack,
)

from .masked_index import META, index_numbers, mask_of, shapes_of_all

MAX_ELEMENTS = 16 << 20  # of one tensor
MAX_ELEMENTS_IN_ALL = 64 << 20  # of all that one datum's loss computes, each kept for the backward pass
MAX_PIECES = 4096  # tensors that one operation returns
MAX_POWER = 64
# By the names under which torch.fx records functions.
ROOTS: Mapping[str, Any] = {
    "torch": torch,
    "torch.functional": torch.functional,
    "torch.nn.functional": functional,
    "torch._C._nn": sys.modules["torch._C._nn"],
    "torch._C._special": sys.modules["torch._C._special"],
    "operator": operator,
    "math": math,
}


class GraphLoss:
    """One such loss. Every method raises InvalidTrainingInput, which names the node or the datum."""

    def __init__(self, loss: CustomLoss) -> None:
        self._loss = loss
        self._walked: set[tuple[Any, ...]] = set()  # shapes and kinds of inputs for which it is known to be small

    def check(self, data: Sequence[Datum]) -> None:
        """Whether every datum has what the loss reads, in its number of dimensions, and the loss fits into memory."""
        for index, datum in enumerate(data):
            tensors = [datum.loss_inputs[TARGETS].astype(np.float32, copy=False)]
            for wanted in self._loss.inputs[1:]:
                if wanted.name not in datum.loss_inputs:
                    raise InvalidTrainingInput(
                        f"datum {index} has no tensor {wanted.name!r} in loss_fn_inputs, which {self._loss.name} takes"
                    )
                tensors.append(datum.loss_inputs[wanted.name])
            for wanted, values in zip(self._loss.inputs, tensors, strict=True):
                if not _fits(values, wanted.rank):
                    raise InvalidTrainingInput(
                        f"datum {index}, {wanted.name} has {values.ndim} dimensions; {self._loss.name} declared"
                        f" {wanted.rank}"
                    )
                if not np.isfinite(values).all():
                    raise InvalidTrainingInput(f"datum {index}, {wanted.name} has a number that is not finite")
            self._walk(index, tensors)

    def of_row(
        self, logprobs_E: Tensor, flat_E: np.ndarray, indices: Sequence[int], data: Sequence[Datum]
    ) -> tuple[Tensor, dict[str, float]]:
        """The sum of the loss over the row's data, with its gradient, and each metric's sum over them."""
        inverse = torch.from_numpy(np.argsort(flat_E)).to(logprobs_E.device)
        shapes = [data[index].loss_inputs[TARGETS].shape for index in indices]
        pieces = logprobs_E[inverse].cpu().split([math.prod(shape) for shape in shapes])
        total, metrics = torch.zeros((), dtype=torch.float64), dict[str, float]()
        for index, shape, piece in zip(indices, shapes, pieces, strict=True):
            others = [self._tensor(data[index], place) for place in range(1, len(self._loss.inputs))]
            computed = self._computed(index, [piece.reshape(shape), *others], torch.device("cpu"))
            assert computed is not None, "it goes to the end where there are values"
            loss, told = computed
            if not bool(torch.isfinite(loss.detach())):
                raise InvalidTrainingInput(
                    f"{self._loss.name} of datum {index} is {loss.item()}; nothing was accumulated"
                )
            total = total + loss
            for name, value in told.items():
                metrics[name] = metrics.get(name, 0.0) + float(value.detach())
        return total, metrics

    def _tensor(self, datum: Datum, place: int) -> Tensor:
        wanted = self._loss.inputs[place]
        values = datum.loss_inputs[wanted.name]
        return torch.from_numpy(values.copy()).reshape(() if wanted.rank == 0 else values.shape)

    def _walk(self, index: int, tensors: Sequence[np.ndarray]) -> None:
        """Compute shapes alone, up to the first node whose size depends on values."""
        shapes = tuple((each.shape, each.dtype.str) for each in tensors)
        if shapes in self._walked:
            return
        given = [
            torch.empty(() if wanted.rank == 0 else each.shape, dtype=_dtype(each), device=META)
            for wanted, each in zip(self._loss.inputs, tensors, strict=True)
        ]
        self._computed(index, given, META)
        if len(self._walked) > 10_000:
            self._walked.clear()
        self._walked.add(shapes)

    def _computed(
        self, index: int, inputs: list[Tensor], device: torch.device
    ) -> tuple[Tensor, dict[str, Tensor]] | None:
        """Loss and metrics; None where only shapes are computed and a mask has to be known for the rest."""
        values: dict[str, Any] = {}
        waiting, elements, has_mask = iter(inputs), 0, False
        for node in self._loss.graph.nodes:
            if node.op == "placeholder":
                values[node.name] = next(waiting)
                continue
            args = [_decoded(each, values, device) for each in node.args]
            if node.op == "output":
                return self._output(index, args[0])
            kwargs = {name: _decoded(each, values, device) for name, each in node.kwargs.items()}
            where = f"{self._loss.name} of datum {index}, node {node.name!r} ({node.target})"
            mask = _mask_of(node, args, where)
            if mask is not None:
                if device == META:
                    return None
                has_mask = True
                elements += index_numbers(mask)
                _within(elements, where)
            elif has_mask:
                elements += _elements(_called(node, *shapes_of_all(args, kwargs), META, where), where)
                _within(elements, where)
            value = values[node.name] = _called(node, args, kwargs, device, where)
            if mask is not None or not has_mask:
                elements += _elements(value, where)
            _within(elements, where)
        raise AssertionError("a graph that was checked ends with its output")

    def _output(self, index: int, returned: Any) -> tuple[Tensor, dict[str, Tensor]]:
        loss, metrics = returned
        for name, value in {"loss": loss, **metrics}.items():
            if not isinstance(value, Tensor) or value.ndim != 0:
                shape = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise InvalidTrainingInput(
                    f"{self._loss.name} of datum {index} returns {name} as {shape}; it must be a tensor of one number,"
                    " of shape []"
                )
        if not loss.is_floating_point():
            raise InvalidTrainingInput(f"{self._loss.name} of datum {index} returns a loss of {loss.dtype}")
        return loss, metrics


def custom_find(config: LossConfig) -> GraphLoss:
    """The loss that ``loss_fn_config`` names. Raises InvalidTrainingInput."""
    loss_id = config.get("loss_id")
    if not isinstance(loss_id, str) or len(config) != 1:
        raise InvalidTrainingInput(
            "loss_fn 'custom' takes loss_fn_config {'loss_id': what create_custom_loss returned}"
        )
    try:
        return _graph_loss(loss_id)
    except CustomLossRefused as refused:
        raise InvalidTrainingInput(str(refused)) from refused


@lru_cache(maxsize=64)
def _graph_loss(loss_id: str) -> GraphLoss:
    return GraphLoss(loss_unpack(loss_id))


def function_of(target: str) -> Callable[..., Any]:
    """What a name of the list stands for."""
    if target in GETATTR:
        return getattr
    module, _, name = target.rpartition(".")
    return getattr(ROOTS[module], name)


def _called(node: LossNode, args: list[Any], kwargs: dict[str, Any], device: torch.device, where: str) -> Any:
    try:
        if not any(isinstance(each, Tensor) for each in _flat([*args, *kwargs.values()])):
            _plain_check(node, args, where)
        elif node.target.startswith("math."):
            raise TypeError("math takes plain numbers; the same function of torch takes tensors")
        with torch.device(device):
            if node.op == "call_function":
                return function_of(node.target)(*args, **kwargs)
            if not isinstance(args[0], Tensor):
                raise TypeError(f"{node.target} is a method of tensors, not of {type(args[0]).__name__}")
            return args[0] if node.target == "cpu" else getattr(args[0], node.target)(*args[1:], **kwargs)
    except NotImplementedError as error:
        raise InvalidTrainingInput(
            f"{where}: its size depends on values, or it is not there on meta tensors"
        ) from error
    except (RuntimeError, TypeError, ValueError, IndexError, ArithmeticError, AttributeError) as error:
        raise InvalidTrainingInput(f"{where}: {str(error)[:500]}") from error


def _mask_of(node: LossNode, args: list[Any], where: str) -> Tensor | None:
    try:
        return mask_of(node, args)
    except IndexError as error:
        raise InvalidTrainingInput(f"{where}: {error}") from error


def _within(elements: int, where: str) -> None:
    if elements > MAX_ELEMENTS_IN_ALL:
        raise InvalidTrainingInput(f"{where}: the loss computes more than {MAX_ELEMENTS_IN_ALL} numbers")


def _plain_check(node: LossNode, args: list[Any], where: str) -> None:
    """Of plain numbers Python would compute any number of digits."""
    if not node.target.startswith("operator.") or node.target == "operator.getitem":
        return
    if not all(isinstance(each, int | float) and not abs(each) > WHOLE_NUMBER for each in args):
        raise InvalidTrainingInput(f"{where}: of what is no tensor it takes numbers of at most 53 bits")
    if node.target == "operator.pow" and abs(args[-1]) > MAX_POWER:
        raise InvalidTrainingInput(f"{where}: of plain numbers a power of at most {MAX_POWER} is computed")


def _decoded(value: Any, values: Mapping[str, Any], device: torch.device) -> Any:
    if isinstance(value, list):
        return [_decoded(each, values, device) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    match kind:
        case "ref":
            return values[held]
        case "tuple":
            return tuple(_decoded(each, values, device) for each in held)
        case "dict":
            return {name: _decoded(each, values, device) for name, each in held.items()}
        case "slice":
            return slice(*(_decoded(each, values, device) for each in held))
        case "ellipsis":
            return ...
        case "float":
            return FLOATS[held]
        case "device":
            return device
        case _:  # dtype, layout, memory_format
            return getattr(torch, held)


def _elements(value: Any, where: str) -> int:
    """How many numbers an operation returned. Raises InvalidTrainingInput where they are too many."""
    tensors = [each for each in _flat([value]) if isinstance(each, Tensor)]
    elements = sum(each.numel() for each in tensors)
    if elements > MAX_ELEMENTS or len(tensors) > MAX_PIECES:
        raise InvalidTrainingInput(
            f"{where} has {elements} numbers in {len(tensors)} tensors; at most {MAX_ELEMENTS} in {MAX_PIECES} are"
            " computed at once"
        )
    return elements


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for each in values:
        if isinstance(each, list | tuple):
            yield from _flat(each)
        elif isinstance(each, slice):
            yield from (each.start, each.stop, each.step)
        else:
            yield each


def _fits(values: np.ndarray, rank: int) -> bool:
    return values.size == 1 if rank == 0 else values.ndim == rank


def _dtype(values: np.ndarray) -> torch.dtype:
    return torch.int64 if values.dtype.kind in "iu" else torch.float32
