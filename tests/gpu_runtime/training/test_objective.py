"""What corrects and regularizes a loss, against exact sums over a small vocabulary and finite
differences.
"""

import math

import pytest
import torch

from gpu_runtime.loop.advantages import overlong_penalty
from gpu_runtime.loop.step_options import entropy_coef_of, next_entropy_coef
from gpu_runtime.training.losses import kl_k2, kl_k3, token_entropy
from gpu_runtime.training.objective.row_loss import LoopInputs, clipped_tokens, policy_loss
from support.plain_losses import Token, plain_token, settings_of
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import CLIPPED_LOSSES, RATIO_LOSSES

NOW = [-1.0, -2.0, -0.5, -1.5]
ENGINE = [-1.3, -1.8, -0.9, -1.4]
BEFORE = [-1.1, -2.1, -0.6, -1.2]
ADVANTAGES, SAMPLES = [1.0, -0.5, 0.7, -2.0], [0, 0, 1, 1]


def drawn():
    """The policy's log-probabilities, and what a loss is computed from beside them."""
    now, engine, before, advantages = (
        torch.tensor(each, dtype=torch.float64) for each in (NOW, ENGINE, BEFORE, ADVANTAGES)
    )
    scale = torch.ones_like(now)
    return now, LoopInputs(engine, advantages, torch.tensor(SAMPLES), scale, before_K=before)


@pytest.mark.parametrize("cap", [None, 1.2])
@pytest.mark.parametrize("loss", RATIO_LOSSES)
def test_the_ratio_of_a_later_update_is_against_the_policy_before_the_step(loss, cap):
    """Value and gradient: weight(before, engine) * loss(now, before), the weight without a
    gradient.
    """
    weighed = {"weight": "none", "mask": "none"} if cap is None else {"weight_high": cap}
    clip = {"clip_low": 0.08, "clip_high": 0.09} if loss in CLIPPED_LOSSES else {}
    config = SessionConfig(loss=loss, epochs=2, **clip, engine_correction=weighed)

    def expected(now):
        total = 0.0
        for k, (x, before, advantage) in enumerate(zip(now, BEFORE, ADVANTAGES, strict=True)):
            own = [NOW[j] - BEFORE[j] for j, sample in enumerate(SAMPLES) if sample == SAMPLES[k]]
            gap = sum(own) / len(own)
            token = Token(x, NOW[k], before, advantage, settings_of(config), gap)
            weight = 1.0 if cap is None else min(math.exp(before - ENGINE[k]), cap)
            total += weight * plain_token(loss, token)
        return total

    now, inputs = drawn()
    now.requires_grad_()
    loss_K = policy_loss(config, inputs, now)
    assert loss_K.sum().item() == pytest.approx(expected(NOW))
    loss_K.sum().backward()
    for k in range(len(NOW)):
        up, down = ([x + h * (j == k) for j, x in enumerate(NOW)] for h in (1e-6, -1e-6))
        assert now.grad[k].item() == pytest.approx(
            (expected(up) - expected(down)) / 2e-6, rel=1e-5, abs=1e-8
        )


def test_of_a_later_update_the_clip_and_the_correction_are_both_counted():
    now, inputs = drawn()
    config = SessionConfig(
        epochs=2, clip_low=0.08, clip_high=0.08, engine_correction={"weight_high": 1.3}
    )
    # exp(.1) = 1.105, A > 0: clipped. A < 0: not. before / engine = exp(.3) = 1.35: cut. exp(-.3),
    # A < 0: clipped.
    assert clipped_tokens(config, inputs, now).tolist() == [True, False, True, True]
    wide = SessionConfig(epochs=2, clip_low=0.5, clip_high=0.5)
    assert clipped_tokens(wide, inputs, now).tolist() == [False] * 4


def distributions(seed=0, size=6):
    torch.manual_seed(seed)
    logits, reference = torch.randn(2, size, dtype=torch.float64)
    return logits.requires_grad_(), reference.log_softmax(0)


@pytest.mark.parametrize("estimator", [kl_k2, kl_k3])
def test_the_gradient_of_an_estimator_over_all_tokens_is_exactly_what_its_docstring_says(estimator):
    """sum_v sg(p_v) grad est(v). k2: the gradient of KL(policy || reference). k3: of KL(reference
    || policy).
    """
    logits, reference = distributions()
    logprobs = logits.log_softmax(0)
    (found,) = torch.autograd.grad(
        (logprobs.exp().detach() * estimator(logprobs, reference)).sum(), logits
    )
    logprobs = logits.log_softmax(0)
    kl = (
        (logprobs.exp() * (logprobs - reference)).sum()
        if estimator is kl_k2
        else -(reference.exp() * logprobs).sum()
    )
    (exact,) = torch.autograd.grad(kl, logits)
    torch.testing.assert_close(found, exact)


def test_k1_as_a_loss_would_have_no_gradient_on_average():
    """Why it is no choice for kl_estimator."""
    logits, reference = distributions()
    logprobs = logits.log_softmax(0)
    (found,) = torch.autograd.grad((logprobs.exp().detach() * (logprobs - reference)).sum(), logits)
    assert found.abs().max() < 1e-12


def test_k3_is_the_kl_in_value():
    logits, reference = distributions(3)
    logprobs = logits.detach().log_softmax(0)
    exact = (logprobs.exp() * (logprobs - reference)).sum()
    torch.testing.assert_close((logprobs.exp() * kl_k3(logprobs, reference)).sum(), exact)


def test_entropy_is_the_sum_over_the_vocabulary_with_its_gradient():
    torch.manual_seed(1)
    logits = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    p = logits.softmax(1)
    torch.testing.assert_close(token_entropy(logits), -(p * p.log()).sum(1))
    assert torch.autograd.gradcheck(token_entropy, logits)


def test_the_weight_of_entropy_rises_below_the_target_and_falls_above_it_within_bounds():
    assert next_entropy_coef(0.01, 0.3, 0.5) == pytest.approx(0.015)
    assert next_entropy_coef(0.01, 0.7, 0.5) == pytest.approx(0.005)
    assert next_entropy_coef(0.002, 0.7, 0.5) == 0.0 and next_entropy_coef(0.999, 0.1, 0.5) == 1.0


def test_the_weight_of_a_step_follows_from_the_record_of_the_step_before_it():
    adaptive = SessionConfig(entropy_coef=0.02, entropy_target=0.5)
    assert entropy_coef_of(adaptive, None) == 0.02
    assert entropy_coef_of(adaptive, {"entropy_coef": 0.03, "entropy": 0.2}) == pytest.approx(0.035)
    assert (
        entropy_coef_of(SessionConfig(entropy_coef=0.02), {"entropy_coef": 0.03, "entropy": 0.2})
        == 0.02
    )


@pytest.mark.parametrize(
    ("length", "expected"), [(10, 0.0), (80, 0.0), (85, -0.25), (90, -0.5), (100, -1.0), (120, -1)]
)
def test_the_last_tokens_before_the_limit_cost_a_part_of_the_reward_each(length, expected):
    assert overlong_penalty(length, 100, 20) == pytest.approx(expected)
    assert overlong_penalty(length, 100, 0) == 0.0
