"""The rehearsal of a mixture of experts passes, and refuses an engine whose router has its experts
in another order.
"""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import EngineTrainerMismatch
from gpu_runtime.loading.rehearsal import rehearse
from gpu_runtime.training.ranks import TrainerRanks
from gpu_runtime.weights.shared_file import WeightFile
from support.model_families import family_make
from support.published_weights import published_weights
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

CONFIG = SessionConfig(max_context_length=128)
ROUTER = "mlp.gate.weight"
ORDER = [1, 0, 2, 3]


def permuted(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """``weights`` with the experts of each router in another order, and the experts as they
    were."""
    return {
        name: tensor[ORDER].contiguous() if name.endswith(ROUTER) else tensor
        for name, tensor in weights.items()
    }


class PermutingEngine:
    """A real engine whose reload permutes its routers."""

    def __init__(self, engine: VllmEngine, folder: Path) -> None:
        self._engine, self._folder = engine, folder

    def __getattr__(self, name: str):
        return getattr(self._engine, name)

    async def load_weights(self, folder: Path, version: int) -> None:
        weights = permuted(published_weights(folder))
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        file = WeightFile(self._folder, shapes, torch.float32)
        for name, tensor in weights.items():
            file.write(name, tensor)
        await self._engine.load_weights(self._folder, version)


@pytest.mark.engine
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_router_whose_experts_are_permuted_is_refused_with_the_measured_gap(
    tmp_path: Path,
) -> None:
    model = family_make(tiny_model_make(tmp_path / "model"), "Qwen3-MoE")
    other = family_make(tiny_model_make(tmp_path / "other"), "Qwen3-MoE")
    file = other / "model.safetensors"
    save_file(permuted(load_file(file)), file, metadata={"format": "pt"})
    engine = await VllmEngine.start(EngineSpec(str(model), CONFIG, "cpu"))
    trainers = [TrainerRanks(str(each), CONFIG, "cpu") for each in (model, other, model)]
    try:
        right, permuting, handing = trainers
        await rehearse(engine, right, model, tmp_path / "handover")
        with pytest.raises(
            EngineTrainerMismatch,
            match=r"differ with the base weights: a KL of [0-9.e-]+, and.*num_experts",
        ):
            await rehearse(engine, permuting, other, tmp_path / "handover")
        with pytest.raises(
            EngineTrainerMismatch,
            match=r"differ after a hand-over of changed weights: a KL of [0-9.e-]+.*experts",
        ):
            stale = PermutingEngine(engine, tmp_path / "permuted")
            await rehearse(stale, handing, model, tmp_path / "handed")
    finally:
        await engine.close()
        for each in trainers:
            await each.close()
