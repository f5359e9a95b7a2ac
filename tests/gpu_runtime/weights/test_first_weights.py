"""An engine that waits for its first weights computes nothing before it has them, all of them, and
then exactly.
"""

from pathlib import Path

import pytest
import torch
from torch import nn

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.weights.shared_file import WeightFile
from support.handover_probe import PROMPTS, config_make, gap, model_make
from tinkerscript.wire.config import SessionConfig

# What vLLM imports warns of its own future.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def weights_write(model: nn.Module, folder: Path, *, but: str = "") -> Path:
    """The weights of ``model`` as a trainer leaves them, without the one whose name begins so."""
    weights = {
        name: it for name, it in model.named_parameters() if not but or not name.startswith(but)
    }
    file = WeightFile(folder, {name: it.shape for name, it in weights.items()}, torch.float32)
    for name, parameter in weights.items():
        file.write(name, parameter)
    return file.folder


@pytest.mark.engine
@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        pytest.param("qwen2", True, id="biases and a head of its own"),
        pytest.param("mistral", False, id="loaded as vLLM does", marks=pytest.mark.nightly),
    ],
)
async def test_an_engine_without_weights_takes_a_whole_model_and_nothing_less(
    tmp_path: Path, kind: str, waits: bool
) -> None:
    config = config_make(tmp_path / "model", kind)
    trained = model_make(config, 2)
    part = weights_write(trained, tmp_path / "part", but="model.layers.1.")
    engine = await VllmEngine.start(
        EngineSpec(
            str(tmp_path / "model"),
            SessionConfig(max_context_length=128, max_tokens=8),
            "cpu",
            awaits_weights=True,
        )
    )
    try:
        if waits:
            [said] = await engine.llm.collective_rpc("take_weights", args=(str(part),))
            assert said.startswith("refused: these are not all of the weights")
        await engine.load_weights(weights_write(trained, tmp_path / "whole"), 1)
        assert (
            max([await gap(engine, trained, prompt, str(n)) for n, prompt in enumerate(PROMPTS)])
            < 1e-4
        )
        again = model_make(config, 3)
        await engine.load_weights(weights_write(again, tmp_path / "next"), 2)
        assert (
            max([await gap(engine, again, prompt, f"2-{n}") for n, prompt in enumerate(PROMPTS)])
            < 1e-4
        )
    finally:
        await engine.close()


@pytest.mark.system  # it imports vLLM
def test_a_model_that_waits_for_its_weights_refuses_to_compute() -> None:
    from gpu_runtime.weights.packed_loader import awaits_weights, weights_arrived, weights_await

    model, row = nn.Linear(2, 2), torch.ones(1, 2)
    expected = model(row)
    weights_arrived(model)
    weights_await(model)
    assert awaits_weights(model)
    with pytest.raises(RuntimeError, match="has not been given its weights yet"):
        model(row)
    weights_arrived(model)
    assert not awaits_weights(model) and torch.equal(model(row), expected)


@pytest.mark.system  # it imports vLLM
def test_a_name_in_two_files_of_a_folder_is_listed_twice(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from gpu_runtime.weights.packed_loader import names_of

    save_file({"a": torch.ones(2), "b": torch.ones(2)}, tmp_path / "model.safetensors")
    save_file({"b": torch.zeros(2)}, tmp_path / "stale.safetensors")
    assert sorted(names_of(tmp_path)) == ["a", "b", "b"]
