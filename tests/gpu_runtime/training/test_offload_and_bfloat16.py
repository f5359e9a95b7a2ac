"""The two ways of training that a CPU has no use for take the same steps there, at every ZeRO
stage.
"""

import random

import pytest
import torch

from gpu_runtime.errors import RuntimeFault
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.ranks import TrainerRanks
from support.rank_probe import in_a_rank, weights_after
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

every_stage = pytest.mark.parametrize("stage", [pytest.param(1, marks=pytest.mark.nightly), 2, 3])
OPTIONS = {"learning_rate": 1e-3, "grad_clip": 0.1, "micro_batch_tokens": 64}


def batch(seed: int) -> list[Sample]:
    rng = random.Random(seed)
    samples = []
    for group in range(8):
        ids = tuple(rng.randrange(2, 90) for _ in range(20))
        samples.append(
            Sample(
                ids,
                (0,) * 10 + (1,) * 10,
                (0.0,) * 10 + (-4.5,) * 10,
                rng.uniform(-1, 1),
                group=group,
            )
        )
    return samples


BATCHES = [batch(1), batch(2), batch(3)]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(tiny_model_make(tmp_path_factory.mktemp("tiny")))


def runs_of(model: str, plain: SessionConfig, changed: SessionConfig) -> list[dict]:
    """Weights of the plain run, of the changed run, and of the changed run when it is resumed after
    its second step.
    """
    return in_a_rank(weights_after, model, [(plain, 0), (changed, 0), (changed, 2)], BATCHES)


def apart(measured: dict, expected: dict) -> float:
    return max(
        (measured[name].float() - expected[name].float()).abs().max().item() for name in expected
    )


@pytest.mark.engine
@every_stage
def test_an_offloaded_optimizer_takes_the_same_steps_and_resumes_to_the_same_bits(model, stage):
    """It moves nothing on a CPU, but it is DeepSpeed's other code path, with the fused AdamW on the
    host.
    """
    options = OPTIONS | {"zero_stage": stage}
    offloaded = SessionConfig(**options, offload_optimizer=True)
    plain, measured, resumed = runs_of(model, SessionConfig(**options), offloaded)
    assert apart(measured, plain) < 2e-5  # of the 3e-3 that three Adam steps may move a weight
    assert apart(resumed, measured) == 0


@pytest.mark.engine
@every_stage
def test_bfloat16_takes_the_steps_of_float32_to_its_rounding_and_resumes_to_the_same_bits(
    model, stage
):
    options = OPTIONS | {"zero_stage": stage}
    plain, measured, resumed = runs_of(
        model, SessionConfig(**options), SessionConfig(**options, dtype="bfloat16")
    )
    assert {tensor.dtype for tensor in measured.values()} == {torch.bfloat16}
    moved = torch.cat([(measured[name].float() - plain[name]).flatten() for name in plain])
    assert moved.abs().mean() < 3e-4, "a tenth of what three Adam steps move a weight"
    assert apart(resumed, measured) == 0


def test_offloading_is_refused_where_there_is_no_gpu_to_take_anything_off(model):
    with pytest.raises(RuntimeFault, match="offload_optimizer"):
        TrainerRanks(model, SessionConfig(offload_optimizer=True), "cpu")
