"""The many-model trainer in processes of its own, as the other trainer's ranks are: a crash ends a
child alone. Models of all weights use every rank, adapters the first one.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_runtime.model_interfaces import AdamParams, Datum, ForwardResult, LoraConfig, LossConfig
from gpu_runtime.placement import dtype_name
from gpu_runtime.training.rank_process import rank_main
from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.training.ranks import STEP_S, WEIGHTS_S, RankProcesses
from tinkerscript.processes import machine_share
from tinkerscript.wire.config import SessionConfig

if TYPE_CHECKING:
    from .trainer import BaseWithModels


class ModelTrainerProcess(RankProcesses):
    """model_interfaces.ModelTrainer over ``config.trainer_ranks`` processes. It reads dtype,
    lengths and checkpointing of ``config`` beside.
    """

    def __init__(
        self,
        base_model_path: str,
        config: SessionConfig,
        device: str,
        *,
        gpus: Sequence[str] = (),
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self.dtype = dtype_name(config, device)
        ranks = config.trainer_ranks
        threads = max(1, machine_share.cpus() // ranks)
        spec = RankSpec(base_model_path, config, 0, ranks, "", device, threads, tuple(gpus))
        super().__init__(spec, partial(rank_main, load=models_load), on_progress=on_progress)

    async def create_model(self, model_id: str, lora: LoraConfig | None) -> None:
        await self._call("create_model", model_id, lora, deadline_s=WEIGHTS_S)

    async def unload(self, model_id: str) -> None:
        await self._call("unload", model_id, deadline_s=WEIGHTS_S)

    async def forward(
        self, model_id: str, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        return await self._call(
            "forward", model_id, list(data), loss_fn, dict(loss_config), deadline_s=STEP_S
        )

    async def forward_backward(
        self, model_id: str, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        return await self._call(
            "forward_backward", model_id, list(data), loss_fn, dict(loss_config), deadline_s=STEP_S
        )

    async def optim_step(self, model_id: str, params: AdamParams) -> dict[str, float]:
        return await self._call("optim_step", model_id, params, deadline_s=STEP_S)

    async def save_state(self, model_id: str, folder: Path) -> None:
        await self._call("save_state", model_id, folder, deadline_s=WEIGHTS_S)

    async def load_state(
        self, model_id: str, folder: Path, *, with_optimizer: bool, with_gradient: bool = False
    ) -> None:
        await self._call(
            "load_state", model_id, folder, with_optimizer, with_gradient, deadline_s=WEIGHTS_S
        )

    async def export_sampler(self, model_id: str, folder: Path) -> None:
        await self._call("export_sampler", model_id, folder, deadline_s=WEIGHTS_S)

    async def export_state(self, state: Path, folder: Path) -> None:
        await self._call("export_state", state, folder, deadline_s=WEIGHTS_S)

    async def export_merged(self, saved: Path, folder: Path) -> None:
        """The base with what ``save_state`` or ``export_sampler`` wrote of a model, as a Hugging
        Face folder.
        """
        await self._call("export_merged", saved, folder, deadline_s=WEIGHTS_S)

    async def export_external(self, model_id: str, folder: Path) -> None:
        await self._call("export_external", model_id, folder, deadline_s=WEIGHTS_S)


def models_load(spec: RankSpec, on_row: Callable[[], None]) -> "BaseWithModels":
    """The base of ``spec`` in this process, whose environment is the rank's."""
    # Here and not above: the parent must not pay for torch, and the environment must be set first.
    import torch

    from gpu_runtime.training.cpu.process import same_bits_keep

    from .trainer import BaseWithModels

    torch.set_num_threads(spec.threads)
    if spec.device == "cpu":
        same_bits_keep()
    return BaseWithModels(spec, on_row)
