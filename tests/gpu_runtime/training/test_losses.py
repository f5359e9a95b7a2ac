"""Each loss equals its formula in plain Python, and its gradient equals finite differences."""

import math
import random

import pytest
import torch

from gpu_runtime.loop.data import token_scales
from gpu_runtime.training.losses import kl_k3
from gpu_runtime.training.objective.row_loss import LoopInputs, clipped_tokens, policy_loss
from support.plain_losses import OWN_OPTIONS, SESSION_LOSSES, Token, plain_token, settings_of
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import (
    CLIPPED_LOSSES,
    LOSSES,
    RATIO_LOSSES,
    SURROGATE_LOSSES,
)

LOW, HIGH, CAP = 0.2, 0.28, 1.2
MANY = {"epochs": 2}  # a single update has no ratio but 1
UNWEIGHED = {"engine_correction": {"weight": "none", "mask": "none"}}
CAPPED = {"engine_correction": {"weight_high": CAP, "mask": "none"}}
CLIPPED = [
    SessionConfig(loss=name, clip_low=LOW, clip_high=HIGH, **MANY, **UNWEIGHED)
    for name in CLIPPED_LOSSES
]
DUAL = [
    SessionConfig(loss=name, clip_low=LOW, clip_high=HIGH, dual_clip=1.4, **MANY, **UNWEIGHED)
    for name in SURROGATE_LOSSES
]
# With the clip that the loss has by itself, or none.
OWN = [
    SessionConfig(loss=name, **OWN_OPTIONS.get(name, {}), **MANY, **UNWEIGHED)
    for name in RATIO_LOSSES
]
TRUNCATED = [SessionConfig(loss=name, **CAPPED) for name in RATIO_LOSSES]
WITHOUT_RATIO = [
    SessionConfig(loss=name, **OWN_OPTIONS.get(name, {}))
    for name in SESSION_LOSSES
    if name not in RATIO_LOSSES
]
CONFIGS = [*CLIPPED, *DUAL, *OWN, *TRUNCATED, *WITHOUT_RATIO]


def name_of(config):
    return (
        config.loss
        + "-truncated" * (config.engine_correction.weight != "none")
        + "-dual" * bool(config.dual_clip)
        + f"-{config.clip_low}"
    )


every_loss = pytest.mark.parametrize("config", CONFIGS, ids=name_of)


def draw(seed: int):
    """Log-probabilities now and as recorded, advantages (two within the first sample), samples."""
    rng = random.Random(seed)
    sample_K = [0, 0, 0, 1, 1, 2]
    engine_K = [rng.uniform(-3, -0.1) for _ in sample_K]
    logprobs_K = [q + rng.uniform(-0.6, 0.6) for q in engine_K]
    return logprobs_K, engine_K, [1.1, 1.1, -0.2, -0.7, -0.7, 0.4], sample_K


def reference(config, logprobs, engine, advantages, samples, stopped=None):
    """The formulas, one token at a time. What carries no gradient is computed from ``stopped``."""
    stopped = logprobs if stopped is None else stopped
    old = engine if config.has_many_updates else stopped
    losses = []
    for k, (x, advantage) in enumerate(zip(logprobs, advantages, strict=True)):
        own = [stopped[j] - old[j] for j, sample in enumerate(samples) if sample == samples[k]]
        token = Token(x, stopped[k], old[k], advantage, settings_of(config), sum(own) / len(own))
        loss = plain_token(config.loss, token)
        if config.dual_clip and advantage < 0:
            loss = min(loss, -config.dual_clip * advantage)
        if LOSSES[config.loss].has_ratio and not config.has_many_updates:
            loss *= min(math.exp(stopped[k] - engine[k]), config.engine_correction.weight_high)
        losses.append(loss)
    return losses


def inputs_of(config, engine, advantages, samples):
    """Of several updates a later one, whose policy before the step is the engine's."""
    engine_K, advantages_K = (
        torch.tensor(values, dtype=torch.float64) for values in (engine, advantages)
    )
    before_K = engine_K if config.has_many_updates else None
    sample_K, scale_K = torch.tensor(samples), torch.ones_like(engine_K)
    return LoopInputs(engine_K, advantages_K, sample_K, scale_K, before_K=before_K)


def measured(config, logprobs, engine, advantages, samples):
    x = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    return x, policy_loss(config, inputs_of(config, engine, advantages, samples), x)


@every_loss
@pytest.mark.parametrize("seed", range(5))
def test_loss_equals_the_plain_formula(config, seed):
    drawn = draw(seed)
    assert measured(config, *drawn)[1].tolist() == pytest.approx(
        reference(config, *drawn), rel=1e-9
    )


@every_loss
@pytest.mark.parametrize("seed", range(3))
def test_gradient_equals_finite_differences(config, seed):
    logprobs, *rest = drawn = draw(seed)
    x, loss_K = measured(config, *drawn)
    loss_K.sum().backward()
    h = 1e-6
    for k in range(len(logprobs)):
        up, down = ([v + h * sign * (j == k) for j, v in enumerate(logprobs)] for sign in (1, -1))
        rise = sum(reference(config, up, *rest, logprobs)) - sum(
            reference(config, down, *rest, logprobs)
        )
        assert x.grad[k].item() == pytest.approx(rise / (2 * h), rel=1e-5, abs=1e-8)


def test_the_options_of_a_loss_alone_have_values_other_than_the_defaults():
    """Without this a formula could have a default in their place."""
    for config in (*OWN, *WITHOUT_RATIO):
        default = settings_of(SessionConfig(loss=config.loss, **MANY))
        same = dict(settings_of(config).items() & default.items())
        assert all(name.startswith("clip_") for name in same), (
            f"give {config.loss} other values than {same} by OWN_OPTIONS of plain_losses.py"
        )


def test_the_draws_reach_both_sides_of_every_bound():
    """Without this the tests above could pass on a loss that has lost its clip."""
    for config in (*CLIPPED, *DUAL, *TRUNCATED):
        found = set()
        for seed in range(5):
            logprobs, *rest = draw(seed)
            x = torch.tensor(logprobs, dtype=torch.float64)
            found |= set(clipped_tokens(config, inputs_of(config, *rest), x).tolist())
        assert found == {True, False}, name_of(config)


def test_cispo_keeps_the_gradient_of_clipped_tokens_and_ppo_does_not():
    gradients = {}
    for name in ("cispo", "ppo"):  # ratio e, far above the clip
        x, loss_K = measured(
            SessionConfig(loss=name, clip_high=HIGH, **MANY), [-1.0], [-2.0], [1.0], [0]
        )
        loss_K.sum().backward()
        gradients[name] = x.grad.item()
    assert gradients["ppo"] == 0.0
    assert gradients["cispo"] == pytest.approx(-(1 + HIGH))


@pytest.mark.parametrize("config", TRUNCATED, ids=name_of)
def test_a_truncated_token_keeps_its_gradient_at_the_cap_under_every_loss_with_a_ratio(config):
    x, loss_K = measured(config, [-1.0, -1.5], [-2.0, -1.0], [1.0, 1.0], [0, 0])
    loss_K.sum().backward()
    assert x.grad.tolist() == pytest.approx([-CAP, -math.exp(-0.5)])


@every_loss
def test_on_policy_every_loss_has_the_gradient_of_reinforce(config):
    logprobs, _, advantages, samples = draw(0)
    x, loss_K = measured(config, logprobs, logprobs, advantages, samples)
    loss_K.sum().backward()
    assert x.grad.tolist() == pytest.approx([-advantage for advantage in advantages])


def test_gspo_shares_one_ratio_among_the_tokens_of_a_sequence():
    logprobs, engine, _, samples = draw(1)
    config = SessionConfig(loss="gspo", clip_low=0.99, clip_high=9.0, **MANY, **UNWEIGHED)
    _, losses = measured(config, logprobs, engine, [1.0] * 6, samples)
    assert len({round(v, 5) for v in losses.tolist()[:3]}) == 1


def test_kl_is_zero_at_equality_and_never_negative():
    x = torch.linspace(-4, 0, 50)
    assert torch.all(kl_k3(x, x) == 0)
    assert torch.all(kl_k3(x, x.flip(0)) >= 0)


def test_kl_of_a_gap_within_the_parity_bound_is_not_rounded_away():
    x = torch.full((4,), -1.0)
    assert kl_k3(x, x + 1e-4).tolist() == pytest.approx([5e-9] * 4, rel=0.02)


def averaged(average):
    names = [name for name, loss in LOSSES.items() if loss.average == average]
    assert names
    return names


def test_scales_make_an_episode_of_ten_timelines_count_once():
    for name in averaged("episodes"):
        one = token_scales(name, [4, 6], [1.0, 1.0], 100)
        ten = token_scales(name, [4, *[6] * 10], [1.0, *[0.1] * 10], 100)
        assert one[0] * 4 == pytest.approx(ten[0] * 4) == pytest.approx(0.5)
        assert sum(scale * 6 for scale in ten[1:]) == pytest.approx(0.5)


def test_scales_of_token_level_losses_weigh_every_token_alike():
    for name in averaged("tokens"):
        assert token_scales(name, [1, 9], [1.0, 1.0], 100) == [0.1, 0.1]
    for name in averaged("constant"):
        assert token_scales(name, [1, 9], [1.0, 1.0], 10) == [0.05, 0.05]


@pytest.mark.parametrize("name", SESSION_LOSSES)
def test_under_every_loss_two_timelines_of_an_episode_weigh_as_one_sequence_of_their_tokens(name):
    apart = token_scales(name, [3, 9, 4], [0.25, 0.75, 1.0], 100)
    one, other = token_scales(name, [12, 4], [1.0, 1.0], 100)
    assert apart == pytest.approx([one, one, other])


@pytest.mark.parametrize("config", [*CLIPPED, *DUAL], ids=name_of)
def test_a_token_counts_as_clipped_iff_its_bound_changes_its_loss(config):
    """Seen from the loss itself: it differs from the unclipped one. cispo has a weight of its own
    to compare.
    """
    free = config.model_copy(update={"clip_low": 0.999999, "clip_high": 1e9, "dual_clip": None})
    for seed in range(5):
        logprobs, engine, advantages, samples = draw(seed)
        advantages[2] = 0.0
        drawn = logprobs, engine, advantages, samples
        changed = [
            a != pytest.approx(b)
            for a, b in zip(reference(config, *drawn), reference(free, *drawn), strict=True)
        ]
        x = torch.tensor(drawn[0], dtype=torch.float64)
        assert clipped_tokens(config, inputs_of(config, *drawn[1:]), x).tolist() == changed
