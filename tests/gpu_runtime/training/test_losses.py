"""Each loss equals its formula in plain Python, and its gradient equals finite differences."""

import math
import random

import pytest
import torch

from gpu_runtime.training.losses import kl_k3, policy_loss, token_scales

LOW, HIGH = 0.2, 0.28
NAMES = ["grpo", "dr_grpo", "dapo", "ppo", "gspo", "cispo", "importance_sampling"]


def draw(seed: int):
    rng = random.Random(seed)
    sample_K = [0, 0, 0, 1, 1, 2]
    old_K = [rng.uniform(-3, -0.1) for _ in sample_K]
    logprobs_K = [o + rng.uniform(-0.6, 0.6) for o in old_K]
    advantages_K = [[1.1, -0.7, 0.4][s] for s in sample_K]
    return logprobs_K, old_K, advantages_K, sample_K


def reference(name, logprobs, old, advantages, samples):
    """The formulas, one token at a time."""
    losses = []
    for k, sample in enumerate(samples):
        ratio = math.exp(logprobs[k] - old[k])
        if name == "gspo":
            own = [logprobs[j] - old[j] for j in range(len(samples)) if samples[j] == sample]
            ratio = math.exp(sum(own) / len(own))
        clipped = min(max(ratio, 1 - LOW), 1 + HIGH)
        if name == "cispo":
            losses.append(-clipped * advantages[k] * logprobs[k])
        elif name == "importance_sampling":
            losses.append(-ratio * advantages[k])
        else:
            losses.append(-min(ratio * advantages[k], clipped * advantages[k]))
    return losses


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(5))
def test_loss_equals_the_plain_formula(name, seed):
    logprobs, old, advantages, samples = draw(seed)
    tensors = [torch.tensor(x, dtype=torch.float64) for x in (logprobs, old, advantages)]
    measured = policy_loss(name, *tensors, torch.tensor(samples), LOW, HIGH)
    assert measured.tolist() == pytest.approx(reference(name, logprobs, old, advantages, samples), rel=1e-9)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("gspo", "cispo")])  # those stop a gradient on purpose
@pytest.mark.parametrize("seed", range(3))
def test_gradient_equals_finite_differences(name, seed):
    logprobs, old, advantages, samples = draw(seed)
    x = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    rest = [torch.tensor(v, dtype=torch.float64) for v in (old, advantages)]
    policy_loss(name, x, *rest, torch.tensor(samples), LOW, HIGH).sum().backward()
    h = 1e-6
    for k in range(len(logprobs)):
        up, down = list(logprobs), list(logprobs)
        up[k] += h
        down[k] -= h
        slope = (
            sum(reference(name, up, old, advantages, samples)) - sum(reference(name, down, old, advantages, samples))
        ) / (2 * h)
        assert x.grad[k].item() == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_cispo_keeps_the_gradient_of_clipped_tokens_and_ppo_does_not():
    old, advantage = torch.tensor([-2.0]), torch.tensor([1.0])
    gradients = {}
    for name in ("cispo", "ppo"):
        x = torch.tensor([-1.0], requires_grad=True)  # ratio e, far above the clip
        policy_loss(name, x, old, advantage, torch.tensor([0]), LOW, HIGH).sum().backward()
        gradients[name] = x.grad.item()
    assert gradients["ppo"] == 0.0
    assert gradients["cispo"] == pytest.approx(-(1 + HIGH))


def test_gspo_shares_one_ratio_among_the_tokens_of_a_sequence():
    logprobs, old, _, samples = draw(1)
    losses = policy_loss("gspo", *map(torch.tensor, (logprobs, old, [1.0] * 6, samples)), 0.99, 9.0)
    assert len({round(v, 5) for v in losses.tolist()[:3]}) == 1


def test_kl_is_zero_at_equality_and_never_negative():
    x = torch.linspace(-4, 0, 50)
    assert torch.all(kl_k3(x, x) == 0)
    assert torch.all(kl_k3(x, x.flip(0)) >= 0)


def test_scales_make_an_episode_of_ten_timelines_count_once():
    one = token_scales("grpo", [4, 6], [1.0, 1.0], 100)
    ten = token_scales("grpo", [4, *[6] * 10], [1.0, *[0.1] * 10], 100)
    assert one[0] * 4 == pytest.approx(ten[0] * 4) == pytest.approx(0.5)
    assert sum(scale * 6 for scale in ten[1:]) == pytest.approx(0.5)


def test_scales_of_token_level_losses_weigh_every_token_alike():
    assert token_scales("dapo", [1, 9], [1.0, 1.0], 100) == [0.1, 0.1]
    assert token_scales("dr_grpo", [1, 9], [1.0, 1.0], 10) == [0.05, 0.05]


def test_an_unknown_loss_is_refused():
    with pytest.raises(ValueError, match="unknown loss"):
        policy_loss("nope", *[torch.zeros(1)] * 3, torch.zeros(1, dtype=torch.long), LOW, HIGH)
