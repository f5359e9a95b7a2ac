"""One base for the tests of this folder, and a way to read what a model holds."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from gpu_runtime.training.models.trainer import BaseWithModels
from gpu_runtime.training.rank_spec import RankSpec
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    return tiny_model_make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def trainer_of(base):
    """A trainer in this process, without the process of its own that a session gives it."""

    def make(**options) -> BaseWithModels:
        return BaseWithModels(RankSpec(str(base), SessionConfig(**options), 0, 1, "", "cpu", 2))

    return make


@pytest.fixture
def state_of(tmp_path):
    """Every tensor of a model: weights, moments, a waiting gradient."""
    count = 0

    def read(trainer: BaseWithModels, model_id: str) -> dict:
        nonlocal count
        count += 1
        folder: Path = tmp_path / f"read-{count}"
        trainer.save_state(model_id, folder)
        return {
            f"{path.name} {name}": t
            for path in folder.glob("*.safetensors")
            for name, t in load_file(path).items()
        }

    return read
