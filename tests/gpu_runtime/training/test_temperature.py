"""Log-probabilities of the distribution that was sampled from: exact sums, and where a run drifts
to.
"""

import math

import pytest
import torch

from gpu_runtime.loop.batching import batch_samples
from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.policy import token_logprobs
from gpu_runtime.training.rows.packing import pack_row
from gpu_runtime.training.rows.tensors import RowTensors
from support.trained_batches import batch, call, episode
from tinkerscript.wire.config import SessionConfig

CPU = torch.device("cpu")
TEMPERATURES = [0.3, 0.7, 1.0, 1.3, 2.0]
VOCABULARY = 9


def drawn_logits() -> torch.Tensor:
    return torch.randn(
        VOCABULARY, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
    ).requires_grad_()


def logprobs_of(logits_V: torch.Tensor, temperature: float) -> torch.Tensor:
    """Of every token, as the trainer computes them one by one."""
    every_token = torch.arange(VOCABULARY)
    temperature_K = torch.full((VOCABULARY,), temperature, dtype=torch.float64)
    return token_logprobs(logits_V.expand(VOCABULARY, -1), every_token, temperature_K)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_the_expected_score_is_zero_so_that_a_token_that_does_not_matter_stays(temperature):
    """Sum over v of p_T(v) grad log p_T(v) = 0, exactly the distribution that the engine samples
    from.
    """
    logits_V = drawn_logits()
    sampled_V = torch.softmax(logits_V.detach() / temperature, dim=-1)
    (sampled_V * logprobs_of(logits_V, temperature)).sum().backward()
    assert logits_V.grad.abs().max() < 1e-12
    if temperature != 1.0:
        logits_V.grad = None
        (sampled_V * logprobs_of(logits_V, 1.0)).sum().backward()
        assert logits_V.grad.abs().max() > 1e-2, "at temperature 1 the score would not vanish"


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_the_policy_gradient_is_the_derivative_of_the_expected_reward(temperature):
    """E[r grad log p_T] against finite differences of sum over v of p_T(v) r(v)."""
    logits_V, rewards_V = drawn_logits(), torch.linspace(-1, 1, VOCABULARY, dtype=torch.float64)
    sampled_V = torch.softmax(logits_V.detach() / temperature, dim=-1)
    (sampled_V * rewards_V * logprobs_of(logits_V, temperature)).sum().backward()
    for v in range(VOCABULARY):
        step = torch.zeros(VOCABULARY, dtype=torch.float64)
        step[v] = 1e-5
        up, down = (
            (
                torch.softmax((logits_V.detach() + sign * step) / temperature, dim=-1) * rewards_V
            ).sum()
            for sign in (1, -1)
        )
        assert logits_V.grad[v].item() == pytest.approx(((up - down) / 2e-5).item(), abs=1e-8)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_the_entropy_of_a_token_that_does_not_matter_stays(temperature):
    """Group-relative steps on rewards that are noise: 400 groups of eight drawn at T, one parameter
    per token.
    """
    generator = torch.Generator().manual_seed(1)
    logits_V = torch.zeros(8, dtype=torch.float64)
    logits_V[0] = 1.0
    before = entropy(logits_V)
    for _ in range(400):
        leaf = logits_V.clone().requires_grad_()
        drawn = torch.multinomial(
            torch.softmax(logits_V / temperature, -1), 8, replacement=True, generator=generator
        )
        rewards = torch.rand(8, dtype=torch.float64, generator=generator)
        temperature_K = torch.full((8,), temperature, dtype=torch.float64)
        logprobs = token_logprobs(leaf.expand(8, -1), drawn, temperature_K)
        (-(rewards - rewards.mean()) * logprobs).mean().backward()
        logits_V = logits_V - 0.05 * temperature * leaf.grad
    assert entropy(logits_V) == pytest.approx(before, abs=0.05)


def entropy(logits_V: torch.Tensor) -> float:
    logprobs_V = torch.log_softmax(logits_V, -1)
    return -(logprobs_V.exp() * logprobs_V).sum().item()


def test_a_row_keeps_the_temperature_of_each_entry_and_none_where_all_are_one():
    cold = Sample((1, 2, 3), (0, 1, 1), (0.0, -1.0, -1.0), 1.0, temperatures_T=(1.0, 0.5, 2.0))
    assert row_of(cold).temperature_K.tolist() == [0.5, 2.0]
    assert row_of(Sample((1, 2), (0, 1), (0.0, -1.0), 1.0)).temperature_K is None
    assert (
        row_of(Sample((1, 2), (0, 1), (0.0, -1.0), 1.0, temperatures_T=(1.0, 1.0))).temperature_K
        is None
    )


def row_of(sample: Sample) -> RowTensors:
    data = sample_data([sample])
    return RowTensors.of(pack_row(data, [0]), data, CPU)


def test_calls_that_merged_keep_their_own_temperatures():
    first, second = (
        call("a", [1], [2, 3], temperature=0.5),
        call("b", [1, 2, 3, 4], [5], temperature=1.5),
    )
    merged, plain = batch_samples(
        batch([episode(1, 1.0, first, second), episode(2, 0.0, call("c", [1], [9]))]),
        SessionConfig(),
    )
    assert merged.temperatures_T == (1.0, 0.5, 0.5, 1.0, 1.5)
    assert plain.temperatures_T is None
    assert math.isfinite(merged.advantage)
