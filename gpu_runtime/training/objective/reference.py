"""What the KL term compares the policy with: the base model, or a mean that follows the policy, or
both.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from gpu_runtime.training.sharding.shards import is_sharded, own_range, rank
from gpu_runtime.training.states.folder import reference_name
from gpu_runtime.training.states.saved import SavedState, tensors_write
from gpu_runtime.weights.flip import local_part
from tinkerscript.wire.config import SessionConfig


class References:
    """``main`` is the reference of ``kl_coef``, ``base`` that of ``kl_base_coef`` beside a moving
    one.

    Without a KL term there is none, and under LoRA the policy without its adapters is one that
    needs no memory.
    """

    def __init__(self, config: SessionConfig, load: Callable[[], nn.Module]) -> None:
        self.main = load() if config.kl_coef > 0 and not config.lora_rank else None
        self.base = load() if self.main is not None and config.kl_base_coef > 0 else None
        self._moving = None
        if self.main is not None and config.reference_decay is not None:
            self._moving = EmaReference(self.main, config.reference_decay)

    def follow(self, policy: nn.Module) -> None:
        """After an update."""
        if self._moving is not None:
            self._moving.follow(policy)

    def save(self, folder: Path) -> None:
        """Write what moves beside a state, before that. Every rank must call it."""
        if self._moving is not None:
            self._moving.save(folder)

    def load(self, saved: SavedState, policy: nn.Module) -> None:
        """Become what ``save`` wrote. Beside the state of a session that had none it begins at
        ``policy``."""
        if self._moving is not None and not self._moving.load(saved):
            self._moving.begin(policy)


class EmaReference:
    """reference <- decay * reference + (1 - decay) * policy after each update, summed in float32.

    The KL term then holds the policy near its own past and not at the base model for ever. Source:
    Ramé et al. 2024, "WARP", arXiv:2406.16768, section 3.1; TRL's ``sync_ref_model`` mixes in the
    same way.

    Where weights are sharded, each rank has the same part of both models, and moves its part.
    """

    def __init__(self, reference: nn.Module, decay: float) -> None:
        self._parameters = list(reference.parameters())
        self._weights = list(map(local_part, self._parameters))
        # In bfloat16 a change of a hundredth of a change would be rounded away each time.
        self._means = [
            weight if weight.dtype == torch.float32 else weight.float() for weight in self._weights
        ]
        self._decay = decay

    @torch.no_grad()
    def follow(self, policy: nn.Module) -> None:
        """Move towards ``policy``."""
        for weight, mean, parameter in zip(
            self._weights, self._means, policy.parameters(), strict=True
        ):
            mean.lerp_(local_part(parameter).to(mean.dtype), 1 - self._decay)
            _copy(weight, mean)

    @torch.no_grad()
    def begin(self, policy: nn.Module) -> None:
        """Be ``policy``."""
        for weight, mean, parameter in zip(
            self._weights, self._means, policy.parameters(), strict=True
        ):
            mean.copy_(local_part(parameter))
            _copy(weight, mean)

    def save(self, folder: Path) -> None:
        """Write what this rank has of it beside a state; where weights are whole, rank 0 has it."""
        if rank() and not is_sharded(self._parameters[0]):
            return
        tensors, firsts = {}, {}
        for index, (parameter, mean) in enumerate(zip(self._parameters, self._means, strict=True)):
            first, last = own_range(parameter)
            if first < last:
                tensors[str(index)] = mean.view(-1)[: last - first]
                firsts[str(index)] = first
        tensors_write(folder / reference_name(rank()), tensors, firsts)

    def load(self, saved: SavedState) -> bool:
        """Become what ``save`` wrote. False where the state has none."""
        if "reference.0" not in saved:
            return False
        for index, (parameter, weight, mean) in enumerate(
            zip(self._parameters, self._weights, self._means, strict=True)
        ):
            first, last = own_range(parameter)
            if first < last:
                row = saved.row(f"reference.{index}", last, first)
                mean.view(-1)[: last - first].copy_(row)
            _copy(weight, mean)
        return True


def _copy(weight: Tensor, mean: Tensor) -> None:
    if weight is not mean:
        weight.copy_(mean)
