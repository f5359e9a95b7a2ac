"""Rollout routing replay: a token is computed by the experts that computed it when it was sampled.

Engine and trainer round differently, and a router that takes the best k of its experts takes
others where two are nearly alike. So the trainer is given the choice, and none of it: weights of
the chosen experts are the model's own, of its router as it is, normalised as the model does it,
and have a gradient. Source: Ma et al. 2025, arXiv:2510.11370, section 4.

Every family chooses by ``topk`` over a last dimension as wide as its experts are many, of scores,
logits, or corrected scores. While a layer of experts computes, that one function has the recorded
numbers in the place of its own. Other top-k's (groups of experts) are of another width.

Shape legend: N tokens that a layer is given, L layers of experts, E experts of each, k chosen.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gpu_runtime.errors import ModelUnsupported

CHOICES = (torch.topk, Tensor.topk)
WIDE = 256  # experts of a layer whose numbers a byte holds


class RoutingReplay:
    """The choices of one model. ``replayed`` and ``differing`` count, since ``count``, choices that
    were replayed, and those that the model's own router would not have made.
    """

    def __init__(self, model: nn.Module) -> None:
        self._layers: list[int] = []  # how many experts each has
        self._experts_NLk: Tensor | None = None
        self._device = next(model.parameters(), torch.empty(0)).device
        self.count()
        for name, module in model.named_modules():
            count = getattr(module, "num_experts", None)
            if name.rpartition(".")[2] == "experts" and isinstance(count, int):
                block: Any = model.get_submodule(name.rpartition(".")[0])
                block.forward = partial(self._routed, len(self._layers), block.forward)
                self._layers.append(count)

    @property
    def has_experts(self) -> bool:
        """Whether a layer of the model routes its tokens."""
        return bool(self._layers)

    def begin(self, experts_NW: Tensor | None) -> None:
        """What the next forward pass and its backward pass replay: bytes of rows of
        journal/token_values.py, -1 of a token that the model routes itself; None of all.

        Raises ModelUnsupported for rows that this model's layers cannot have sampled.
        """
        self._experts_NLk = None if experts_NW is None else self._numbers(experts_NW)

    def count(self) -> None:
        """Count from here on."""
        self.replayed, self.differing = 0, torch.zeros((), dtype=torch.int64, device=self._device)

    def measured(self, ranks: int) -> dict[str, float]:
        """``routing_differs`` of the tokens since ``count``; empty where none were replayed. A
        collective.
        """
        if not self._layers:
            return {}
        device = self.differing.device
        sums = torch.stack([self.differing, torch.tensor(self.replayed, device=device)])
        if ranks > 1:
            dist.all_reduce(sums)
        differing, replayed = sums.tolist()
        return {"routing_differs": differing / replayed} if replayed else {}

    def _numbers(self, experts_NW: Tensor) -> Tensor:
        width = experts_NW.shape[1]
        is_wide = max(self._layers, default=0) > WIDE
        layers = len(self._layers) * (2 if is_wide else 1)
        if not layers or width % layers:
            raise ModelUnsupported(
                f"the engine recorded {width} bytes of experts for a token, which {len(self._layers)}"
                " layers cannot have chosen: set routing_replay to false"
            )
        numbers = experts_NW.long()
        if is_wide:
            numbers = torch.where(
                numbers[:, ::2] < 0, -1, numbers[:, ::2] + numbers[:, 1::2] * WIDE
            )
        return numbers.view(len(numbers), len(self._layers), -1)

    def _routed(self, layer: int, forward: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        if self._experts_NLk is None:
            return forward(*inputs, **options)
        with _Replayed(self, self._experts_NLk[:, layer], self._layers[layer]):
            return forward(*inputs, **options)

    def noted(self, own_Nk: Tensor, chosen_Nk: Tensor) -> None:
        """Count what was replayed in the place of ``own_Nk``."""
        alike_Nk = (own_Nk[:, :, None] == chosen_Nk[:, None, :]).any(1)
        self.replayed += chosen_Nk.numel()
        self.differing = self.differing.to(own_Nk.device) + (~alike_Nk).sum()


class _Replayed(TorchFunctionMode):
    """While it is entered, the experts of each token are ``chosen_Nk``, where that is not -1."""

    def __init__(self, replay: RoutingReplay, chosen_Nk: Tensor, experts: int) -> None:
        super().__init__()
        self._replay, self._chosen_Nk, self._experts = replay, chosen_Nk, experts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        own = func(*args, **options)
        if func not in CHOICES:
            return own
        scores: Tensor = args[0] if args else options["input"]
        k = self._chosen_Nk.shape[1]
        if scores.shape[-1] != self._experts or own.indices.shape[-1] != k:
            return own
        own_Nk = own.indices.reshape(-1, k)
        has_N1 = self._chosen_Nk[:, :1] >= 0
        chosen_Nk = torch.where(has_N1, self._chosen_Nk, own_Nk)
        self._replay.noted(own_Nk[has_N1[:, 0]], chosen_Nk[has_N1[:, 0]])
        chosen = chosen_Nk.view_as(own.indices)
        return torch.return_types.topk((scores.gather(-1, chosen), chosen))
