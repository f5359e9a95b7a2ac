"""The learning rate is a function of the step, and AdamW takes what the session's options say."""

import math

import pytest
import torch

from gpu_runtime.errors import StepRefused
from gpu_runtime.loop.step_options import learning_rate, loop_adam
from gpu_runtime.model_interfaces import AdamParams
from gpu_runtime.training.optimizer import GuardedAdamW, adam_make, adam_set, adam_step
from tinkerscript.wire.config import SessionConfig

CPU = torch.device("cpu")


def rates(steps: int, **options) -> list[float]:
    config = SessionConfig(learning_rate=1e-3, **options)
    return [learning_rate(config, step) / 1e-3 for step in range(1, steps + 1)]


def test_a_constant_rate_warms_up_in_a_line_and_stays():
    assert rates(3) == [1, 1, 1]
    assert rates(6, warmup_steps=3) == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


def test_a_linear_rate_falls_by_the_same_each_step_towards_its_minimum():
    assert rates(4, lr_schedule="linear", lr_min_ratio=0.2, max_steps=4) == pytest.approx(
        [1, 0.8, 0.6, 0.4]
    )


def test_a_cosine_rate_is_at_its_middle_halfway_and_begins_after_the_warm_up():
    options = {"lr_schedule": "cosine", "lr_min_ratio": 0.1, "warmup_steps": 2, "max_steps": 10}
    measured = rates(10, **options)
    expected = [0.1 + 0.9 * (1 + math.cos(math.pi * n / 8)) / 2 for n in range(8)]
    assert measured == pytest.approx([1 / 3, 2 / 3, *expected])
    assert measured[6] == pytest.approx(0.55)


def test_no_step_of_a_schedule_has_a_rate_of_zero_or_less():
    for schedule in ("linear", "cosine"):
        measured = rates(50, lr_schedule=schedule, lr_min_ratio=0.0, max_steps=50)
        assert measured == sorted(measured, reverse=True) and min(measured) > 0


def test_a_step_is_that_of_adamw_with_the_sessions_options():
    config = SessionConfig(
        learning_rate=0.01, adam_beta1=0.7, adam_beta2=0.8, adam_eps=1e-3, weight_decay=0.1
    )
    x = torch.tensor([2.0, -1.0], requires_grad=True)
    optimizer = GuardedAdamW([x], config.grad_norm_limit, CPU)
    m = v = torch.zeros(2)
    expected = x.detach().clone()
    for step, gradient in enumerate((torch.tensor([0.5, -3.0]), torch.tensor([1.0, 1.0])), start=1):
        adam_set(optimizer.param_groups, loop_adam(config, step))
        x.grad = gradient.clone()
        optimizer.step()
        m, v = 0.7 * m + 0.3 * gradient, 0.8 * v + 0.2 * gradient**2
        expected = expected * (1 - 0.01 * 0.1)
        expected = expected - 0.01 * (m / (1 - 0.7**step)) / ((v / (1 - 0.8**step)).sqrt() + 1e-3)
        torch.testing.assert_close(x.detach(), expected)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_step_with_a_gradient_that_is_not_finite_changes_nothing(value):
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = GuardedAdamW([x, y], math.inf, CPU)
    optimizer.param_groups[0]["lr"] = 0.1
    x.grad, y.grad = torch.ones(2), torch.tensor([1.0, value])
    optimizer.step()
    assert optimizer.refused
    assert x.tolist() == y.tolist() == [1.0, 1.0] and not optimizer.state
    y.grad = torch.ones(2)
    optimizer.step()
    assert not optimizer.refused and x.tolist() != [1.0, 1.0]


def test_the_loop_asks_for_a_step_with_every_option_of_its_session():
    config = SessionConfig(
        learning_rate=1e-3, adam_beta1=0.7, adam_beta2=0.8, adam_eps=1e-3, weight_decay=0.1, grad_clip=0.4,
        warmup_steps=1,
    )  # fmt: skip
    assert loop_adam(config, 1) == AdamParams(5e-4, 0.7, 0.8, 1e-3, 0.1, 0.4)


def test_a_gradient_whose_norm_is_beyond_the_limit_changes_nothing():
    x = torch.ones(2, requires_grad=True)
    optimizer = GuardedAdamW([x], 5.0, CPU)
    optimizer.param_groups[0]["lr"] = 0.1
    optimizer.global_norm = lambda: 5.1
    x.grad = torch.ones(2)
    optimizer.step()
    assert optimizer.refused and x.tolist() == [1.0, 1.0]
    optimizer.global_norm = lambda: 5.0
    optimizer.step()
    assert not optimizer.refused and x.tolist() != [1.0, 1.0]


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_a_step_of_a_client_is_that_of_adamw_with_its_own_parameters(clip):
    params = AdamParams(0.01, 0.7, 0.8, 1e-3, 0.1, clip)
    x, idle = torch.tensor([2.0, -1.0], requires_grad=True), torch.ones(1, requires_grad=True)
    optimizer, m, v, expected = (
        adam_make([x, idle]),
        torch.zeros(2),
        torch.zeros(2),
        x.detach().clone(),
    )
    for step, gradient in enumerate((torch.tensor([3.0, -4.0]), torch.tensor([0.0, 0.1])), start=1):
        x.grad = gradient.clone()
        norm = gradient.norm().item()
        assert adam_step(optimizer, params)["grad_norm"] == pytest.approx(norm)
        used = gradient * min(1.0, clip / (norm + 1e-6)) if clip else gradient
        m, v = 0.7 * m + 0.3 * used, 0.8 * v + 0.2 * used**2
        expected = expected * (1 - 0.01 * 0.1)
        expected = expected - 0.01 * (m / (1 - 0.7**step)) / ((v / (1 - 0.8**step)).sqrt() + 1e-3)
        torch.testing.assert_close(x.detach(), expected)
        assert x.grad is None, "the gradient is forgotten"
    assert idle.item() == pytest.approx((1 - 0.01 * 0.1) ** 2), (
        "what has no gradient decays as the rest"
    )


def test_a_clients_gradient_that_is_not_finite_is_refused_and_forgotten():
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.tensor([1.0, math.nan])
    with pytest.raises(StepRefused, match="not finite"):
        adam_step(adam_make([x]), AdamParams())
    assert x.grad is None and x.tolist() == [1.0, 1.0]
