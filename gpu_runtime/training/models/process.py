"""The many-model trainer in processes of its own, as the other trainer's ranks are: a crash ends a
child alone. Models of all weights use every rank, adapters the first one.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_runtime.model_interfaces import ForwardResult, LoraConfig, ModelCall
from gpu_runtime.placement import dtype_name
from gpu_runtime.training.rank_process import rank_main
from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.training.ranks import RankProcesses
from gpu_runtime.training.remote_model import STEP_S, WEIGHTS_S, RemoteClientModel
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
        await self.call("create_model", model_id, lora, deadline_s=WEIGHTS_S)

    def model(self, model_id: str) -> RemoteClientModel:
        """The model of that id, which need not be there yet."""
        return RemoteClientModel(self.call, model_id)

    async def forward_backward_joined(
        self, calls: Sequence[ModelCall]
    ) -> list[ForwardResult] | None:
        return await self.call("forward_backward_joined", list(calls), deadline_s=STEP_S)

    async def unload(self, model_id: str) -> None:
        await self.call("unload", model_id, deadline_s=WEIGHTS_S)

    async def export_state(self, state: Path, folder: Path) -> None:
        await self.call("export_state", state, folder, deadline_s=WEIGHTS_S)

    async def export_merged(self, saved: Path, folder: Path) -> None:
        """The base with what ``save_state`` or ``publish`` wrote of a model, as a Hugging Face
        folder.
        """
        await self.call("export_merged", saved, folder, deadline_s=WEIGHTS_S)


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
