"""What the KL term compares the policy with: the base model, or a mean that follows the policy, or both."""

from collections.abc import Callable
from pathlib import Path

import deepspeed
import torch
from torch import Tensor, nn

from tinkerscript.wire.config import SessionConfig

FILE = "reference.pt"


class References:
    """``main`` is the reference of ``kl_coef``, ``base`` that of ``kl_base_coef`` beside a moving one.

    Without a KL term there is none, and under LoRA the policy without its adapters is one that needs no memory.
    """

    def __init__(self, config: SessionConfig, load: Callable[[], nn.Module]) -> None:
        self.main = load() if config.kl_coef > 0 and not config.lora_rank else None
        self.base = load() if self.main is not None and config.kl_base_coef > 0 else None
        self._moving = None
        if self.main is not None and config.reference_decay is not None:
            self._moving = EmaReference(self.main, config.reference_decay)

    def follow(self, policy: nn.Module) -> None:
        """After an update. A collective where the policy's weights are sharded: every rank must call it."""
        if self._moving is not None:
            self._moving.follow(policy)

    def save(self, folder: Path) -> None:
        """Write what moves beside a state."""
        if self._moving is not None:
            self._moving.save(folder)

    def load(self, folder: Path) -> None:
        """Become what ``save`` wrote."""
        if self._moving is not None:
            self._moving.load(folder)


class EmaReference:
    """reference <- decay * reference + (1 - decay) * policy after each update, summed in float32.

    The KL term then holds the policy near its own past and not at the base model for ever. Source: Ramé et al. 2024,
    "WARP", arXiv:2406.16768, section 3.1; TRL's ``sync_ref_model`` mixes in the same way.
    """

    def __init__(self, reference: nn.Module, decay: float) -> None:
        self._weights = [parameter.data for parameter in reference.parameters()]
        # In bfloat16 a change of a hundredth of a change would be rounded away each time.
        self._means = [weight if weight.dtype == torch.float32 else weight.float() for weight in self._weights]
        self._decay = decay

    @torch.no_grad()
    def follow(self, policy: nn.Module) -> None:
        """Move towards ``policy``. A collective where its weights are sharded: every rank must call it."""
        for weight, mean, parameter in zip(self._weights, self._means, policy.parameters(), strict=True):
            with deepspeed.zero.GatheredParameters([parameter], enabled=hasattr(parameter, "ds_id")):
                mean.lerp_(parameter.data.to(mean.dtype), 1 - self._decay)
            _copy(weight, mean)

    def save(self, folder: Path) -> None:
        """Write it beside a state."""
        torch.save(self._means, folder / FILE)

    def load(self, folder: Path) -> None:
        """Become what ``save`` wrote."""
        for weight, mean, saved in zip(self._weights, self._means, torch.load(folder / FILE), strict=True):
            mean.copy_(saved)
            _copy(weight, mean)


def _copy(weight: Tensor, mean: Tensor) -> None:
    if weight is not mean:
        weight.copy_(mean)
