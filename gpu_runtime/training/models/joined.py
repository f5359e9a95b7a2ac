"""Calls of several models of one base in one pass, each under its own adapter.

A short call takes about as long as its base's weights take to read, or as its operators take to
start. Joined, the rows of several calls stand one after another in one: the base multiplies them
together, and each adapter its own tokens. No token sees another call's (``rows/packing.py``), and
attention computes each call's part as it does alone.

On a CPU what a call gets is the same in every bit as alone: an operation that was joined and is
done again after a kill, by itself, has the same result. That holds where a product's row does not
depend on how many there are. It is tried on the first calls that come, and where it does not hold
nothing is joined. A GPU's products have no such promise, and none is made of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.model_interfaces import Datum, ForwardResult, InvalidTrainingInput, ModelCall
from gpu_runtime.training.policy import LOGITS_CHUNK
from gpu_runtime.training.rows.packing import TreeRow, pack_row, prefix_order
from gpu_runtime.training.rows.tensors import RowTensors
from tinkerscript.wire.training.losses import TARGETS

from .calls import CallLimits, by_datum, call_loss, call_result
from .own import OwnModel

# Products of one row are another kernel's than those of several.
FEWEST = 2
# Tokens of the made-up calls by which a machine is tried: few beside many. A longer datum is not
# joined: beyond a window of its model it may have another kernel than the rest.
LONGEST = 512
TRIED = (FEWEST, LONGEST, 37, 5)


@dataclass(frozen=True)
class _Passed:
    """Of each call its row, its scores ``[K]``, the sum of its loss, and of each of its model's
    parameters the gradient, None where it has none.
    """

    trees: list[TreeRow]
    scores: list[Tensor]
    totals: list[float]
    gradients: list[list[Tensor | None]]

    def equals(self, others: "Sequence[_Passed]") -> bool:
        """Whether each call has the same bits in a pass of its own."""
        return all(
            torch.equal(self.scores[number], other.scores[0])
            and all(map(_alike, self.gradients[number], other.gradients[0]))
            for number, other in enumerate(others)
        )

    @property
    def is_finite(self) -> bool:
        """Whether every gradient is."""
        found = [each for own in self.gradients for each in own if each is not None]
        return bool(torch.isfinite(torch.nn.utils.get_total_norm(found)))


@dataclass
class JoinedCalls:
    """Joins calls of models of one base, as far as its layers and this machine allow it.
    ``gradient_bytes``: what the gradients of all calls of a pass may have, beside those that wait.
    """

    limits: CallLimits
    device: torch.device
    gradient_bytes: int
    _may_join: bool | None = field(default=None, init=False)  # None before it was tried

    def compute(
        self, models: Sequence[OwnModel], calls: Sequence[ModelCall]
    ) -> list[ForwardResult] | None:
        """Accumulate the gradient of each call's loss in its own model. None, and no gradient,
        where they have to be computed one after another: for what they are, or for one's mistake.
        """
        if not self._fits(models, calls):
            return None
        if self._may_join is None:
            self._may_join = self.device.type != "cpu" or self._tried(models)
        if not self._may_join:
            return None
        try:
            passed = self._pass(models, calls)
        except (InvalidTrainingInput, ModelUnsupported):
            return None  # alone each says what is wrong, and the others go on
        if not passed.is_finite:
            return None  # one's infinity may have reached the others
        for model, gradients in zip(models, passed.gradients, strict=True):
            model.gradient_add(gradients)
        return [
            call_result(call, by_datum(tree, call.data, scores), total)
            for call, tree, scores, total in zip(
                calls, passed.trees, passed.scores, passed.totals, strict=True
            )
        ]

    def _fits(self, models: Sequence[OwnModel], calls: Sequence[ModelCall]) -> bool:
        lengths = [[len(datum.token_ids_N) for datum in call.data] for call in calls]
        policy = models[0].policy
        return (
            policy.kind.shares
            and not policy.replay.has_experts
            and all(model.adapter is not None for model in models)
            and all(FEWEST <= max(own, default=0) <= LONGEST for own in lengths)
            and sum(map(sum, lengths)) <= min(LOGITS_CHUNK, self.limits.row_tokens)
            and sum(model.gradient_bytes for model in models) <= self.gradient_bytes
        )

    def _tried(self, models: Sequence[OwnModel]) -> bool | None:
        """Whether made-up calls get the same bits joined as alone; None where the weights of a
        model are broken, which tells nothing of the machine.
        """
        tried = models[: len(TRIED)]
        calls = [_drawn(size, self.limits) for size in TRIED[: len(tried)]]
        try:
            joined = self._pass(tried, calls)
        except ModelUnsupported:
            return False
        except InvalidTrainingInput:  # a loss that is not finite
            return None
        if not joined.is_finite:
            return None
        alone = [self._pass([model], [call]) for model, call in zip(tried, calls, strict=True)]
        return joined.equals(alone)

    def _pass(self, models: Sequence[OwnModel], calls: Sequence[ModelCall]) -> _Passed:
        losses = [call_loss(call, self.limits) for call in calls]
        trees = [pack_row(call.data, prefix_order(call.data)) for call in calls]
        rows = [
            RowTensors.of(tree, call.data, self.device)
            for tree, call in zip(trees, calls, strict=True)
        ]
        parts = [
            (str(model.adapter), len(row.tokens_N)) for model, row in zip(models, rows, strict=True)
        ]
        with _training(models), models[0].adapters.side_by_side(parts):
            scores = models[0].policy.forward_joined(rows)
            computed = [loss(row)(of) for loss, row, of in zip(losses, rows, scores, strict=True)]
            gradients = _gradients(models, [value for value, _ in computed])
        totals = [total for _, total in computed]
        return _Passed(trees, [of.detach() for of in scores], totals, gradients)


@contextmanager
def _training(models: Sequence[OwnModel]) -> Iterator[None]:
    """As long as the block lasts, the parameters of all of them have gradients."""
    frozen = [
        parameter
        for model in models
        for parameter in model.parameters.values()
        if not parameter.requires_grad
    ]
    for parameter in frozen:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def _gradients(models: Sequence[OwnModel], losses: Sequence[Tensor]) -> list[list[Tensor | None]]:
    parameters = [list(model.parameters.values()) for model in models]
    every = [each for own in parameters for each in own]
    found = iter(torch.autograd.grad(losses, every, allow_unused=True))
    return [[next(found) for _ in own] for own in parameters]


def _drawn(size: int, limits: CallLimits) -> ModelCall:
    size = min(size, limits.longest)
    tokens_N = np.random.default_rng(size).integers(limits.vocabulary, size=size + 1)
    inputs: dict[str, np.ndarray] = {TARGETS: tokens_N[1:], "weights": np.ones(size, np.float32)}
    return ModelCall("", [Datum(tokens_N[:-1], inputs)], "cross_entropy", {})


def _alike(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)
