"""A step of the managed loop is one of the primitives: forward_backward with its averages as
weights, then optim_step.

One goes through DeepSpeed, the other is asked for as a client would: gradients and weights agree to
the bit.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from gpu_runtime.loop.data import batch_scales, sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.loop.step_options import loop_adam
from gpu_runtime.model_interfaces import AdamParams, LoraConfig
from gpu_runtime.training.models.adapters import ALPHA
from gpu_runtime.training.models.export import full_weights
from gpu_runtime.training.models.trainer import BaseWithModels
from support.gradient_cases import PLAIN
from support.model_data import SHARED
from support.plain_losses import settings_of
from support.rank_batches import batch
from support.rank_probe import gradients, in_a_rank, weights_after
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import OLD

pytestmark = pytest.mark.engine


def config_of(loss: str) -> SessionConfig:
    """What the engine sampled is drawn, far from the model's own: nothing of it is to be
    corrected.
    """
    off = {"weight": "none", "mask": "none"}
    return SessionConfig(
        **PLAIN, loss=loss, engine_correction=off, learning_rate=1e-3, micro_batch_tokens=64
    )


def samples_of(number: int) -> list[Sample]:
    """A batch whose groups are in lexicographic order, so that a client's data are packed into the
    same rows.
    """
    samples = sorted(batch(number), key=lambda sample: sample.token_ids_T)
    prompts = list(dict.fromkeys(sample.token_ids_T[:12] for sample in samples))
    return [
        dataclasses.replace(sample, group=prompts.index(sample.token_ids_T[:12]))
        for sample in samples
    ]


BATCHES = [samples_of(1), samples_of(2)]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As the other side has it: the order of a sum over threads is no part of the guarantee."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def asked(trainer: BaseWithModels, loss: str, samples: Sequence[Sample]) -> None:
    """forward_backward with the loop's averages as weights."""
    config = config_of(loss)
    settings = settings_of(config)
    data = sample_data(samples, batch_scales(samples, config))
    # The ratio of a single update is against the trainer's own policy before it.
    before = trainer.forward("m", data, SHARED[loss], settings)
    for datum, output in zip(data, before.outputs, strict=True):
        datum.loss_inputs[OLD] = output["logprobs"]
    trainer.forward_backward("m", data, SHARED[loss], settings)


@pytest.fixture(scope="module")
def looped(base: Path) -> tuple[dict[str, dict], dict[str, dict]]:
    """Of each loss the gradient of the managed loop's first step, and its weights after two."""
    found = in_a_rank(gradients, str(base), [(config_of(loss), BATCHES[0]) for loss in SHARED])
    weights = in_a_rank(
        weights_after, str(base), [(config_of(loss), 0) for loss in SHARED], BATCHES
    )
    of_first = {loss: gradient for loss, (_, gradient, _) in zip(SHARED, found, strict=True)}
    return of_first, dict(zip(SHARED, weights, strict=True))


@pytest.mark.parametrize("loss", SHARED)
def test_a_step_of_the_loop_is_that_of_the_primitives_to_the_bit(
    looped, trainer_of, loss: str
) -> None:
    gradients_of, weights_of = looped
    trainer: BaseWithModels = trainer_of(micro_batch_tokens=64)
    trainer.create_model("m", None)
    parameters = trainer._models["m"].parameters  # noqa: SLF001
    asked(trainer, loss, BATCHES[0])
    assert parameters.keys() == gradients_of[loss].keys()
    for name, parameter in parameters.items():
        assert parameter.grad is not None and bool(parameter.grad.any()), name
        assert torch.equal(parameter.grad, gradients_of[loss][name]), name
    for step, samples in enumerate(BATCHES, start=1):
        if step > 1:
            asked(trainer, loss, samples)
        adam: AdamParams = loop_adam(config_of(loss), step)
        trainer.optim_step("m", adam)
    for name, parameter in parameters.items():
        assert torch.equal(parameter.detach(), weights_of[loss][name]), name


def test_a_step_on_an_adapter_is_that_of_the_primitives_to_the_bit(base: Path, trainer_of) -> None:
    """Both begin with the A of the loop, which draws it from another seed."""
    rank = 4
    config = config_of("grpo").model_copy(update={"lora_rank": rank, "lora_alpha": ALPHA})
    ((_, wanted, began),) = in_a_rank(gradients, str(base), [(config, BATCHES[0])])
    (ended,) = in_a_rank(weights_after, str(base), [(config, 0)], BATCHES)
    trainer: BaseWithModels = trainer_of(micro_batch_tokens=64)
    trainer.create_model("m", lora := LoraConfig(rank, train_unembed=False))
    parameters = trainer._models["m"].parameters  # noqa: SLF001
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(began[name.removesuffix(".weight") + ".default.weight"])
    for step, samples in enumerate(BATCHES, start=1):
        asked(trainer, "grpo", samples)
        if step == 1:
            for name, parameter in parameters.items():
                assert torch.equal(
                    parameter.grad, wanted[name.removesuffix(".weight") + ".default.weight"]
                ), name
                assert bool(parameter.grad.any()) == (".lora_B." in name), (
                    "B is zero, so that A has no gradient yet"
                )
        trainer.optim_step("m", loop_adam(config, step))
    merged = full_weights(trainer._policy.model, parameters, lora)  # noqa: SLF001
    for name, weight in merged.items():
        assert torch.equal(weight.detach(), ended[name]), name
