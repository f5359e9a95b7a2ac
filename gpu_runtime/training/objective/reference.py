"""A reference that follows the policy, instead of the base model."""

from pathlib import Path

import deepspeed
import torch
from torch import Tensor, nn

FILE = "reference.pt"


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
