"""A model that one process trains by itself: an adapter, or all weights of a base in float32."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from gpu_runtime.model_interfaces import AdamParams, LoraConfig
from gpu_runtime.training.optimizer import adam_make, adam_step
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rows.row_pass import RowModel

from .adapters import Adapters
from .state_files import state_read, state_write


@dataclass
class OwnModel:
    """A model under training in this process alone. ``adapter`` is its name in peft, None where all
    weights are trained.
    """

    lora: LoraConfig | None
    adapter: str | None
    parameters: dict[str, nn.Parameter]
    policy: Policy
    adapters: Adapters
    device: torch.device
    on_row: Callable[[], None]
    optimizer: torch.optim.AdamW = field(init=False)

    def __post_init__(self) -> None:
        self.optimizer = adam_make(self.parameters.values())

    def rows(self, *, backward: bool) -> RowModel:
        """How its rows are passed."""
        if self.adapter is not None:
            self.adapters.select(self.adapter)
        total, kind = Tensor.backward if backward else None, self.policy.kind
        return RowModel(self.device, self.policy, total, kind=kind, on_row=self.on_row)

    @contextmanager
    def gradient_added(self) -> Iterator[None]:
        """Passes in the block add to the gradient, once it ends; after an exception it is what it
        was.
        """
        parameters = list(self.parameters.values())
        before = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None
        try:
            yield
        except BaseException:
            for parameter, gradient in zip(parameters, before, strict=True):
                parameter.grad = gradient
            raise
        for parameter, gradient in zip(parameters, before, strict=True):
            if gradient is not None:
                added = parameter.grad
                parameter.grad = gradient if added is None else gradient.add_(added)

    @property
    def gradient_bytes(self) -> int:
        """What a gradient of it has."""
        return sum(parameter.nbytes for parameter in self.parameters.values())

    def gradient_add(self, gradients: Iterable[Tensor | None]) -> None:
        """Add those of its parameters, in their order."""
        for parameter, added in zip(self.parameters.values(), gradients, strict=True):
            if added is not None:
                parameter.grad = added if parameter.grad is None else parameter.grad.add_(added)

    def optim_step(self, params: AdamParams) -> dict[str, float]:
        """Apply and forget the gradient. Raises StepRefused where it is not finite."""
        return adam_step(self.optimizer, params)

    def save(self, folder: Path) -> None:
        """The state, and a gradient that waits."""
        state_write(folder, self.parameters, self.optimizer, self.lora, self.on_row)

    def load(self, folder: Path, *, with_optimizer: bool, with_gradient: bool) -> None:
        """Become what ``save`` wrote."""
        given = folder, self.parameters, self.optimizer, self.lora
        state_read(*given, with_optimizer=with_optimizer, with_gradient=with_gradient)

    def close(self) -> None:
        """Take its adapter from the base."""
        if self.adapter is not None:
            self.adapters.remove(self.adapter)
