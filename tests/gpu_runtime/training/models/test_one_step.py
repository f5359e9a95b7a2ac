"""The managed loop and a Tinker client ask for the same step: a sum whose weights are the loop's averages.

One goes through DeepSpeed and the ranks' processes, the other through the primitives: their weights agree.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_runtime.interfaces import Sample
from gpu_runtime.model_interfaces import AdamParams, Datum
from gpu_runtime.training.models.trainer import BaseWithModels
from gpu_runtime.training.objective.token_scales import batch_scales
from gpu_runtime.training.ranks import TrainerRanks
from support.published_weights import published_weights
from support.rank_batches import batch
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import clip_bounds

pytestmark = pytest.mark.engine
STEPS = (1, 2)
LOSSES = {"importance_sampling": "importance_sampling", "grpo": "ppo", "dapo": "ppo"}  # the loop's name, the wire's


def config_of(loss: str) -> SessionConfig:
    return SessionConfig(loss=loss, learning_rate=1e-3, micro_batch_tokens=64)


def datum(sample: Sample, scale: float) -> Datum:
    """What a client sends of a sample: targets are shifted, and what is not trained weighs nothing."""
    trained_N = np.array(sample.mask_T[1:], np.float32)
    inputs = {
        "target_tokens": np.array(sample.token_ids_T[1:]),
        "logprobs": np.array(sample.logprobs_T[1:], np.float32),
        "advantages": np.full(len(trained_N), sample.advantage, np.float32),
        "weights": trained_N * np.float32(scale),
    }
    return Datum(np.array(sample.token_ids_T[:-1]), inputs)


def of_the_loop(base: Path, loss: str, folder: Path) -> dict[str, torch.Tensor]:
    """Weights after the steps of the managed loop's trainer."""

    async def run() -> dict[str, torch.Tensor]:
        config = config_of(loss)
        trainer = TrainerRanks(str(base), config, "cpu")
        try:
            for step in STEPS:
                await trainer.forward_backward(batch(step), 0.0, batch_scales(batch(step), config))
                await trainer.optim_step(step)
            await trainer.publish(folder)
            return {name: weight.clone() for name, weight in published_weights(folder).items()}
        finally:
            await trainer.close()

    return asyncio.run(run())


def of_the_primitives(trainer: BaseWithModels, loss: str) -> dict[str, torch.Tensor]:
    """Weights after the same steps as a client asks for them."""
    config = config_of(loss)
    adam = AdamParams(
        learning_rate=1e-3, beta1=config.adam_beta1, beta2=config.adam_beta2, eps=config.adam_eps,
        weight_decay=config.weight_decay, grad_clip_norm=config.grad_clip,
    )  # fmt: skip
    settings = {}
    if LOSSES[loss] == "ppo":
        bounds = clip_bounds(loss, config.clip_low, config.clip_high)
        settings = dict(zip(("clip_low_threshold", "clip_high_threshold"), bounds, strict=True))
    trainer.create_model("m", None)
    for step in STEPS:
        samples: Sequence[Sample] = batch(step)
        data = [datum(*each) for each in zip(samples, batch_scales(samples, config), strict=True)]
        trainer.forward_backward("m", data, LOSSES[loss], settings)
        trainer.optim_step("m", adam)
    return {name: weight.detach() for name, weight in trainer._models["m"].parameters.items()}  # noqa: SLF001


@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_of_the_loop_is_that_of_the_primitives_with_its_averages_as_weights(
    base: Path, trainer_of, tmp_path: Path, loss: str
) -> None:
    looped = of_the_loop(base, loss, tmp_path)
    trainer = trainer_of(micro_batch_tokens=64)
    began = {name: weight.detach().clone() for name, weight in trainer._policy.model.named_parameters()}  # noqa: SLF001
    stepped = of_the_primitives(trainer, loss)
    assert stepped.keys() <= looped.keys()
    moved = sum((stepped[name] - began[name]).double().square().sum() for name in stepped).sqrt()
    apart = sum((stepped[name] - looped[name]).double().square().sum() for name in stepped).sqrt()
    assert moved > 0 and (apart / moved).item() < 1e-4
