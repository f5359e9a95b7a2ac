"""A model of all weights on two ranks is the one on one rank, but for the rounding of sums; so is
one of a base in bfloat16, whose optimizer has float32. States go from each to the other.
"""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.model_interfaces import AdamParams, InvalidTrainingInput, LoraConfig
from gpu_runtime.training.models.process import ModelTrainerProcess
from gpu_runtime.training.states.saved import SavedState
from support.model_data import drawn_data
from tinkerscript.wire.config import SessionConfig

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]
WHOLE = "S:train:0"
FIRST, SECOND = drawn_data("cross_entropy", seed=1), drawn_data("ppo", seed=2)
STEP = AdamParams(learning_rate=1e-2, weight_decay=0.1, grad_clip_norm=0.5)


@asynccontextmanager
async def trainer_of(base: Path, **options: object) -> AsyncIterator[ModelTrainerProcess]:
    config = SessionConfig(micro_batch_tokens=64, **options)
    trainer = ModelTrainerProcess(str(base), config, "cpu")
    try:
        await trainer.ready()
        await trainer.create_model(WHOLE, None)
        yield trainer
    finally:
        await trainer.close()


async def passes(trainer: ModelTrainerProcess) -> list[np.ndarray]:
    found = await trainer.model(WHOLE).forward_backward(FIRST, "cross_entropy", {})
    await trainer.model(WHOLE).forward_backward(SECOND, "ppo", {})
    return [output["logprobs"] for output in found.outputs]


def kept(folder: Path) -> dict[str, torch.Tensor]:
    """All that is in a state, by key, as one row."""
    state = SavedState(folder)
    shapes = {name: it.numel() for name, it in load_file(folder / "weights.safetensors").items()}
    kinds = ["gradient"] if state.has_gradient else []
    kinds += ["exp_avg", "exp_avg_sq"] if state.step else []
    rows = {name: state.weight_row(name, size) for name, size in shapes.items()}
    return rows | {
        f"{kind}.{name}": state.row(f"{kind}.{name}", size)
        for kind in kinds
        for name, size in shapes.items()
    }


def assert_close(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, row in one.items():
        torch.testing.assert_close(row, other[name], rtol=1e-4, atol=1e-6, msg=name)


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


async def test_two_ranks_have_the_gradients_and_weights_of_one_and_go_on_from_its_state(
    base: Path, tmp_path: Path
) -> None:
    logprobs, norms = [], []
    for ranks in (1, 2):
        async with trainer_of(base, trainer_ranks=ranks) as trainer:
            logprobs.append(await passes(trainer))
            await trainer.model(WHOLE).save_state(tmp_path / f"waiting-{ranks}")
            norms.append((await trainer.model(WHOLE).optim_step(STEP))["grad_norm"])
            await trainer.model(WHOLE).save_state(tmp_path / f"step-{ranks}")
            await passes(trainer)
            await trainer.model(WHOLE).optim_step(STEP)
            await trainer.model(WHOLE).save_state(tmp_path / f"steps-{ranks}")
            if ranks == 2:
                await what_a_client_does_wrong(trainer, tmp_path)
                await trainer.model(WHOLE).publish(tmp_path / "exported")
                await goes_on_from_one_rank(trainer, tmp_path)
    for one, two in zip(*logprobs, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)
    for name in ("waiting", "step", "steps"):
        one, two = (kept(tmp_path / f"{name}-{ranks}") for ranks in (1, 2))
        assert_close(one, two)
        assert any(key.startswith("gradient.") for key in one) == (name == "waiting")
    assert not equal(kept(tmp_path / "step-2"), kept(tmp_path / "steps-2"))
    exported = load_file(tmp_path / "exported" / "model.safetensors")
    weights = load_file(tmp_path / "steps-2" / "weights.safetensors")
    assert all(torch.equal(exported[name], weights[name]) for name in exported)
    async with trainer_of(base) as trainer:
        await trainer.model(WHOLE).load_state(
            tmp_path / "waiting-2", with_optimizer=True, with_gradient=True
        )
        await trainer.model(WHOLE).save_state(tmp_path / "back")
    assert equal(kept(tmp_path / "back"), kept(tmp_path / "waiting-2"))


async def what_a_client_does_wrong(trainer: ModelTrainerProcess, folder: Path) -> None:
    """Each mistake is named, whichever rank finds it, and changes nothing."""
    await passes(trainer)
    await trainer.model(WHOLE).save_state(folder / "before")
    for at in range(len(SECOND)):
        size = len(SECOND[at].token_ids_N)
        far = {"logprobs": np.full(size, -1e4), "advantages": np.full(size, -1.0)}
        broken = dataclasses.replace(SECOND[at], loss_inputs={**SECOND[at].loss_inputs, **far})
        with pytest.raises(InvalidTrainingInput, match=f"the loss of datum {at} is"):
            given = [*SECOND[:at], broken, *SECOND[at + 1 :]]
            await trainer.model(WHOLE).forward_backward(given, "ppo", {})
    with pytest.raises(InvalidTrainingInput, match="'nothing' is unknown"):
        await trainer.model(WHOLE).forward(FIRST, "nothing", {})
    with pytest.raises(InvalidTrainingInput, match="trains all weights"):
        await trainer.create_model("S:train:1", LoraConfig(4))
    await trainer.model(WHOLE).save_state(folder / "after")
    assert equal(kept(folder / "before"), kept(folder / "after"))


async def goes_on_from_one_rank(trainer: ModelTrainerProcess, folder: Path) -> None:
    """With what waited, with the optimizer alone, and without; then adapters have the base."""
    await trainer.model(WHOLE).load_state(
        folder / "waiting-1", with_optimizer=True, with_gradient=True
    )
    await trainer.model(WHOLE).save_state(folder / "taken")
    assert equal(kept(folder / "taken"), kept(folder / "waiting-1"))
    await trainer.model(WHOLE).load_state(folder / "step-1", with_optimizer=True)
    await trainer.model(WHOLE).save_state(folder / "taken-step")
    assert equal(kept(folder / "taken-step"), kept(folder / "step-1"))
    await trainer.model(WHOLE).load_state(folder / "step-1", with_optimizer=False)
    await trainer.model(WHOLE).save_state(folder / "taken-weights")
    assert kept(folder / "taken-weights").keys() < kept(folder / "step-1").keys()
    assert (await trainer.model(WHOLE).optim_step(AdamParams()))["grad_norm"] == 0.0
    await trainer.unload(WHOLE)
    await trainer.create_model("S:train:1", LoraConfig(4))
    first = await trainer.model("S:train:1").forward_backward(FIRST, "cross_entropy", {})
    await trainer.model("S:train:1").optim_step(AdamParams(learning_rate=1e-2))
    await trainer.model("S:train:1").save_state(folder / "adapter")
    second = await trainer.model("S:train:1").forward(FIRST, "cross_entropy", {})
    assert second.metrics["loss:sum"] < first.metrics["loss:sum"]
    with pytest.raises(InvalidTrainingInput, match="'nothing' is unknown"):
        await trainer.model("S:train:1").forward(FIRST, "nothing", {})
    await trainer.model("S:train:1").load_state(folder / "adapter", with_optimizer=True)


async def test_all_weights_of_a_base_in_bfloat16_are_kept_in_float32(
    base: Path, tmp_path: Path
) -> None:
    """In eight bits steps of 1e-6 would leave most weights as they were."""
    async with trainer_of(base, dtype="bfloat16") as trainer:
        await trainer.model(WHOLE).save_state(tmp_path / "begun")
        for _ in range(2):
            await trainer.model(WHOLE).forward_backward(FIRST, "cross_entropy", {})
            await trainer.model(WHOLE).optim_step(AdamParams(learning_rate=1e-6))
        await trainer.model(WHOLE).save_state(tmp_path / "stepped")
    used = load_file(tmp_path / "stepped" / "weights.safetensors")
    assert {weight.dtype for weight in used.values()} == {torch.bfloat16}
    begun, stepped = kept(tmp_path / "begun"), kept(tmp_path / "stepped")
    moved = torch.cat([stepped[name] - begun[name] for name in used])
    assert moved.dtype == torch.float32 and (moved != 0).float().mean() > 0.9
    async with trainer_of(base) as trainer:
        await trainer.model(WHOLE).load_state(tmp_path / "stepped", with_optimizer=True)
        await trainer.model(WHOLE).save_state(tmp_path / "in-float32")
    assert equal(kept(tmp_path / "in-float32"), stepped)
