"""A rank of the trainer on a CUDA device: losses and options have the gradient of a CPU, and states
resume.
"""

import random

import pytest
import torch

from gpu_runtime.loop.sample import Sample
from support.gradient_cases import CONFIGS, PLAIN, samples_of
from support.rank_probe import computation, gradients, in_a_rank, weights_after
from tinkerscript.wire.config import SessionConfig

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]
EXACT = [name for name in CONFIGS if not name.startswith("bfloat16")]
OPTIONS = {"learning_rate": 1e-3, "grad_clip": 0.1, "micro_batch_tokens": 64}


def batch(seed: int, tokens: int = 20) -> list[Sample]:
    rng = random.Random(seed)
    samples = []
    for group in range(8):
        ids = tuple(rng.randrange(2, 90) for _ in range(tokens))
        half = tokens // 2
        advantage = rng.uniform(-1, 1)
        samples.append(
            Sample(
                ids,
                (0,) * half + (1,) * half,
                (0.0,) * half + (-4.5,) * half,
                advantage,
                group=group,
            )
        )
    return samples


BATCHES = [batch(1), batch(2), batch(3)]


def apart(measured: dict, expected: dict) -> float:
    return max(
        (measured[name].float() - expected[name].float()).abs().max().item() for name in expected
    )


@pytest.fixture(scope="module")
def on_both(tiny_folder):
    """What ``rank_probe.gradients`` returns under each of CONFIGS, on the device and on the CPU."""
    runs = [
        (SessionConfig(**PLAIN | {"dtype": "float32"} | CONFIGS[name]), samples_of(name))
        for name in EXACT
    ]
    found = [in_a_rank(gradients, str(tiny_folder), runs, device) for device in ("cuda", "cpu")]
    return dict(zip(EXACT, zip(*found, strict=True), strict=True))


@pytest.mark.parametrize("name", EXACT)
def test_loss_and_gradient_are_those_of_the_cpu(on_both, record_property, name):
    (metrics, gradient, _), (expected, on_cpu, _) = on_both[name]
    for key in ("loss", "kl_engine", "entropy", "clip_fraction", "tokens_trained", "grad_norm"):
        assert metrics[key] == pytest.approx(expected[key], rel=1e-3, abs=1e-5)
    squares = sum((gradient[key] - on_cpu[key]).square().sum() for key in on_cpu)
    distance = (squares / sum(each.square().sum() for each in on_cpu.values())).sqrt().item()
    record_property("distance of the gradient over its norm", distance)
    assert distance < 1e-3


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_an_offloaded_optimizer_takes_the_same_steps_and_resumes_to_the_same_bits(
    tiny_folder, stage
):
    options = OPTIONS | {"zero_stage": stage, "dtype": "float32"}
    plain, offloaded = SessionConfig(**options), SessionConfig(**options, offload_optimizer=True)
    runs = [(plain, 0), (plain, 2), (offloaded, 0), (offloaded, 2)]
    straight, resumed, moved, moved_resumed = in_a_rank(
        weights_after, str(tiny_folder), runs, BATCHES, "cuda"
    )
    assert apart(moved, straight) < 5e-5  # of the 3e-3 that three Adam steps may move a weight
    assert apart(resumed, straight) == 0
    assert apart(moved_resumed, moved) == 0


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_bfloat16_takes_the_steps_of_float32_to_its_rounding_and_resumes_to_the_same_bits(
    tiny_folder, stage
):
    options = OPTIONS | {"zero_stage": stage}
    exact, rounded = SessionConfig(**options, dtype="float32"), SessionConfig(**options)
    plain, measured, resumed = in_a_rank(
        weights_after, str(tiny_folder), [(exact, 0), (rounded, 0), (rounded, 2)], BATCHES, "cuda"
    )
    assert {tensor.dtype for tensor in measured.values()} == {torch.bfloat16}
    moved = torch.cat([(measured[name].float() - plain[name]).flatten() for name in plain])
    assert moved.abs().mean() < 3e-4, "a tenth of what three Adam steps move a weight"
    assert apart(resumed, measured) == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layers_are_computed_twice_and_less_is_saved_and_the_step_is_the_same(tiny_folder, dtype):
    checkpointed = {"gradient_checkpointing": True}
    options = [
        {},
        checkpointed,
        checkpointed | {"zero_stage": 3},
        checkpointed | {"offload_activations": True},
    ]
    runs = [
        (SessionConfig(learning_rate=1e-3, dtype=dtype, **each), batch(1, 200)[:1])
        for each in options
    ]
    plain, recomputed, sharded, offloaded = in_a_rank(computation, str(tiny_folder), runs, "cuda")
    assert [calls for calls, *_ in (plain, recomputed, sharded, offloaded)] == [1, 2, 2, 2]
    assert offloaded[2] == plain[2]
    assert all(torch.equal(offloaded[3][name], weight) for name, weight in plain[3].items())
    assert recomputed[1] < 0.6 * plain[1], "the activations inside of layers are not saved"
    assert recomputed[2] == plain[2] and sharded[2]["loss"] == plain[2]["loss"]
    assert all(torch.equal(recomputed[3][name], weight) for name, weight in plain[3].items())
