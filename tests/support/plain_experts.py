"""A mixture computed by given experts with plain torch: weights by the formula of each family."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear


def normalised(weights_NE: Tensor, chosen_Nk: Tensor) -> Tensor:
    taken_Nk = weights_NE.gather(1, chosen_Nk)
    return taken_Nk / taken_Nk.sum(1, keepdim=True)


def corrected(logits_NE: Tensor, chosen_Nk: Tensor) -> Tensor:
    """Of routers whose correction chooses, and weighs none."""
    taken_Nk = logits_NE.sigmoid().gather(1, chosen_Nk)
    return 1.5 * taken_Nk / (taken_Nk.sum(1, keepdim=True) + 1e-20)


# Of the logits of a layer's router the weights of the experts that are taken, by each family's paper.
WEIGHTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Mixtral": lambda logits, chosen: normalised(logits.softmax(1), chosen),
    "Qwen3-MoE": lambda logits, chosen: logits.softmax(1).gather(1, chosen),
    "OLMoE": lambda logits, chosen: logits.softmax(1).gather(1, chosen),
    "GPT-OSS": lambda logits, chosen: logits.gather(1, chosen).softmax(1),
    "GLM-4.5": corrected,
    "DeepSeek V3": corrected,
    "MiniMax M2": lambda logits, chosen: normalised(logits.sigmoid(), chosen),
}


def blocks(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if hasattr(module, "experts")]


@contextmanager
def by_hand(model: nn.Module, name: str, experts_NLk: np.ndarray) -> Iterator[None]:
    """Give each layer's experts the recorded ones, with weights by the family's formula."""
    hooks = []
    for layer, block in enumerate(blocks(model)):
        router = getattr(block, "gate", None) or block.router

        def given(
            _: nn.Module, inputs: tuple[Any, ...], layer: int = layer, router: Any = router
        ) -> Any:
            hidden_ND, own_Nk, own_weights_Nk = inputs
            chosen_Nk = torch.from_numpy(experts_NLk[:, layer])
            logits_NE = linear(hidden_ND, router.weight, getattr(router, "bias", None))
            weights_Nk = WEIGHTS[name](logits_NE, chosen_Nk.clamp(min=0))
            has_N1 = chosen_Nk[:, :1] >= 0
            return (
                hidden_ND,
                torch.where(has_N1, chosen_Nk, own_Nk),
                torch.where(has_N1, weights_Nk, own_weights_Nk),
            )

        hooks.append(block.experts.register_forward_pre_hook(given))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
