"""A model that ranks train, as the runtime's process calls it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_runtime.model_interfaces import AdamParams, Datum, ForwardResult, LossConfig

# Seconds within which a rank must return a result or, in a long command, report progress. The last
# resort: the watchdog, which dumps stacks, has shorter deadlines (health/status.py).
START_S, STEP_S, WEIGHTS_S = 900.0, 3600.0, 1800.0


class RemoteModel(ABC):
    """model_interfaces.TrainedModel: each method is the command of its name, for every rank."""

    @abstractmethod
    async def call(self, command: str, *arguments: object, deadline_s: float) -> Any:
        """The result of rank 0."""

    async def forward_backward(
        self, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        given = list(data), loss_fn, dict(loss_config)
        return await self.call("forward_backward", *given, deadline_s=STEP_S)

    async def optim_step(self, params: AdamParams) -> dict[str, float]:
        return await self.call("optim_step", params, deadline_s=STEP_S)

    async def publish(self, folder: Path) -> None:
        await self.call("publish", folder, deadline_s=WEIGHTS_S)

    async def export_model(self, folder: Path) -> None:
        await self.call("export_model", folder, deadline_s=WEIGHTS_S)

    async def save_state(self, folder: Path) -> None:
        await self.call("save_state", folder, deadline_s=WEIGHTS_S)

    async def load_state(
        self, folder: Path, *, with_optimizer: bool = True, with_gradient: bool = False
    ) -> None:
        taken = with_optimizer, with_gradient
        await self.call("load_state", folder, *taken, deadline_s=WEIGHTS_S)


@dataclass(frozen=True)
class RemoteClientModel(RemoteModel):
    """model_interfaces.ClientModel: one of the models of ranks. ``ranks_call`` sends them a
    command.
    """

    ranks_call: Callable[..., Awaitable[Any]]
    model_id: str

    async def call(self, command: str, *arguments: object, deadline_s: float) -> Any:
        return await self.ranks_call(command, self.model_id, *arguments, deadline_s=deadline_s)

    async def forward(
        self, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        given = list(data), loss_fn, dict(loss_config)
        return await self.call("forward", *given, deadline_s=STEP_S)
