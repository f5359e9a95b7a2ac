"""The models of a Tinker client on a CUDA device: adapters in float32 on a base in bfloat16, and
all weights.
"""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gpu_runtime.model_interfaces import AdamParams, LoraConfig, ModelCall
from gpu_runtime.training.models.process import ModelTrainerProcess
from gpu_runtime.training.models.trainer import BaseWithModels
from gpu_runtime.training.rank_spec import RankSpec
from support.model_data import SETTINGS, drawn_data
from tinkerscript.wire.config import SessionConfig

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]
KINDS = {"adapters": LoraConfig(4, seed=1), "all weights": None}
LOSSES = ("cross_entropy", "ppo", "gspo")
ADAM = AdamParams(learning_rate=1e-2)


def trainer_of(folder, device, **options) -> BaseWithModels:
    return BaseWithModels(RankSpec(str(folder), SessionConfig(**options), 0, 1, "", device, 2))


def steps(trainer: BaseWithModels, first: int, last: int) -> list[np.ndarray]:
    """Log-probabilities of every call."""
    found = []
    for step in range(first, last):
        name = LOSSES[step % len(LOSSES)]
        result = trainer.forward_backward("m", drawn_data(name, seed=step), name, SETTINGS[name])
        found += [output["logprobs"] for output in result.outputs]
        trainer.optim_step("m", ADAM)
    return found


def state_of(trainer: BaseWithModels, folder) -> dict[str, torch.Tensor]:
    trainer.save_state("m", folder)
    return {
        f"{path.name} {name}": t
        for path in folder.glob("*.safetensors")
        for name, t in load_file(path).items()
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{}, {"micro_batch_tokens": 64}, {"gradient_checkpointing": True}]
)
def test_steps_in_float32_are_those_of_the_cpu(tiny_folder, kind, options):
    found = []
    for device in ("cuda", "cpu"):
        trainer = trainer_of(tiny_folder, device, dtype="float32", **options)
        trainer.create_model("m", KINDS[kind])
        found.append(steps(trainer, 0, 3))
    for measured, expected in zip(*found, strict=True):
        np.testing.assert_allclose(measured, expected, atol=5e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_calls_of_several_adapters_in_one_pass_are_those_of_each_alone(tiny_folder, dtype):
    """But for rounding."""
    found = []
    for joins in (True, False):
        trainer = trainer_of(tiny_folder, "cuda", dtype=dtype)
        calls = []
        for seed, name in enumerate(LOSSES):
            trainer.create_model(name, LoraConfig(4 + 4 * seed, seed=seed))
            calls.append(ModelCall(name, drawn_data(name, seed=seed), name, SETTINGS[name]))
        for _ in range(2):
            results = trainer.forward_backward_joined(calls) if joins else None
            if not joins:
                results = [
                    trainer.forward_backward(
                        each.model_id, each.data, each.loss_fn, each.loss_config
                    )
                    for each in calls
                ]
            for name in LOSSES:
                trainer.optim_step(name, ADAM)
        found.append([output["logprobs"] for result in results for output in result.outputs])
    for joined, alone in zip(*found, strict=True):
        np.testing.assert_allclose(joined, alone, atol=5e-3 if dtype == "float32" else 0.3)


def test_adapters_resume_to_the_same_bits_and_learn_on_a_base_in_bfloat16(tiny_folder, tmp_path):
    trainer = trainer_of(tiny_folder, "cuda")
    trainer.create_model("m", LoraConfig(4, seed=1))
    before = trainer.forward("m", drawn_data("cross_entropy"), "cross_entropy", {}).metrics[
        "loss:sum"
    ]
    steps(trainer, 0, 2)
    trainer.save_state("m", tmp_path / "middle")
    steps(trainer, 2, 4)
    first = state_of(trainer, tmp_path / "first")
    assert {tensor.dtype for tensor in first.values()} == {torch.float32}
    trainer.load_state("m", tmp_path / "middle", True, True)
    steps(trainer, 2, 4)
    again = state_of(trainer, tmp_path / "again")
    assert first.keys() == again.keys() and all(
        torch.equal(first[name], again[name]) for name in first
    )
    trainer.load_state("m", tmp_path / "middle", False, False)
    for _ in range(5):
        trainer.forward_backward("m", drawn_data("cross_entropy"), "cross_entropy", {})
        trainer.optim_step("m", ADAM)
    after = trainer.forward("m", drawn_data("cross_entropy"), "cross_entropy", {}).metrics[
        "loss:sum"
    ]
    assert after < before - 10
    trainer.publish("m", tmp_path / "sampler")
    trainer.unload("m")
    trainer.create_model("other", LoraConfig(2))
    assert (
        trainer.forward("other", drawn_data("cross_entropy"), "cross_entropy", {}).metrics[
            "loss:sum"
        ]
        == before
    )


async def test_all_weights_learn_on_a_base_in_bfloat16_and_resume_to_the_same_bits(
    tiny_folder, tmp_path
):
    """By DeepSpeed, whose optimizer has them in float32."""
    data, found = drawn_data("cross_entropy"), []
    trainer = ModelTrainerProcess(str(tiny_folder), SessionConfig(), "cuda")
    try:
        await trainer.create_model("m", None)
        before = await trainer.model("m").forward(data, "cross_entropy", {})
        await trainer.model("m").forward_backward(data, "cross_entropy", {})
        await trainer.model("m").save_state(tmp_path / "middle")
        for _ in range(2):
            for _ in range(5):
                await trainer.model("m").optim_step(ADAM)
                await trainer.model("m").forward_backward(data, "cross_entropy", {})
            found.append(await trainer.model("m").forward(data, "cross_entropy", {}))
            await trainer.model("m").load_state(
                tmp_path / "middle", with_optimizer=True, with_gradient=True
            )
    finally:
        await trainer.close()
    assert found[0].metrics["loss:sum"] < before.metrics["loss:sum"] - 10
    assert found[0].metrics == found[1].metrics
