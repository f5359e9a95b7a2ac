"""The routers of a mixture of experts: which they are, and what they chose in a step.

transformers names the class of a family's routers where it records their logits; the experts of a
layer are called with the numbers of those that each token takes.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gpu_runtime.errors import ModelUnsupported

RECORDED = "router_logits"


def routers_freeze(model: nn.Module) -> None:
    """Train everything but the routers. Raises ModelUnsupported for a model without any."""
    found = routers(model)
    if not found:
        raise ModelUnsupported("router is frozen, and this model has no router that is known here")
    for router in found:
        router.requires_grad_(False)


class Routing:
    """Counts of one rank, of the tokens that it computes between ``begin`` and ``measured``.

    Padding and a row that a rank repeats count too: they are few, and no promise rests on them. A
    layer that is computed again for the backward pass counts twice as a whole.
    """

    def __init__(self, model: nn.Module) -> None:
        self._experts: dict[nn.Module, int] = {}  # how many a layer has
        self._counts: dict[nn.Module, Tensor] = {}
        self._entropies: list[Tensor] = []  # sums over the tokens of a call of a router
        self._tokens = 0
        self._counting = False
        for name, module in model.named_modules():
            count = getattr(module, "num_experts", None)
            if name.endswith(".experts") and isinstance(count, int):
                self._experts[module] = count
                module.register_forward_pre_hook(self._count)
        recorder = _recorder(model)
        self._index = getattr(recorder, "index", 0)
        for router in routers(model):
            router.register_forward_hook(self._entropy)

    def begin(self) -> None:
        """Count from here on."""
        self._counts, self._entropies, self._tokens, self._counting = {}, [], 0, True

    def measured(self, ranks: int) -> dict[str, float]:
        """``expert_load``: tokens of a layer's busiest expert over the mean of its experts, the
        mean of all layers; ``router_entropy``: of the softmax over a layer's experts, nats, the
        mean of tokens and layers. Empty of a dense model. A collective.
        """
        self._counting = False
        found: dict[str, float] = {}
        if self._counts:
            counts_LE = torch.stack(list(self._counts.values())).double()
            if ranks > 1:
                dist.all_reduce(counts_LE)
            load_L = counts_LE.max(dim=1).values / counts_LE.mean(dim=1).clamp(min=1e-9)
            found["expert_load"] = load_L.mean().item()
        if self._entropies:
            total = torch.stack(self._entropies).sum()
            sums = torch.stack([total, torch.full_like(total, self._tokens)])
            if ranks > 1:
                dist.all_reduce(sums)
            found["router_entropy"] = (sums[0] / sums[1]).item()
        return found

    @torch.no_grad()
    def _count(self, experts: nn.Module, inputs: tuple[Any, ...]) -> None:
        # Llama 4 gives its experts all tokens
        if not self._counting or len(inputs) < 2 or inputs[1].is_floating_point():
            return
        chosen_N = inputs[1].flatten()
        if experts not in self._counts:
            self._counts[experts] = chosen_N.new_zeros(self._experts[experts])
        self._counts[experts].index_add_(0, chosen_N, torch.ones_like(chosen_N))

    @torch.no_grad()
    def _entropy(self, _router: nn.Module, _inputs: Any, output: Any) -> None:
        if not self._counting:
            return
        logits_TE = output[self._index] if isinstance(output, tuple) else output
        logprobs_TE = logits_TE.float().flatten(0, -2).log_softmax(-1)
        self._entropies.append(-(logprobs_TE.exp() * logprobs_TE).sum(dtype=torch.float64))
        self._tokens += len(logprobs_TE)


def _recorder(model: nn.Module) -> Any:
    for module in model.modules():
        found = (getattr(module, "_can_record_outputs", None) or {}).get(RECORDED)
        if found is not None:
            return found[0] if isinstance(found, list) else found
    return None


def routers(model: nn.Module) -> list[nn.Module]:
    """Those of every layer; none of a model without any that transformers names."""
    recorder = _recorder(model)
    kind = getattr(recorder, "target_class", recorder)
    return [] if kind is None else [it for it in model.modules() if isinstance(it, kind)]
