"""What a token counts by the gap between trainer and engine: weights, masks and a veto, each by its
formula.
"""

import math

import pytest
import torch

from gpu_runtime.training.objective.engine_correction import (
    corrected,
    engine_weight,
    left_out,
)
from gpu_runtime.training.objective.row_loss import (
    STATISTICS,
    LoopInputs,
    policy_loss,
    row_loss,
)
from support.rounded_logprobs import rounded
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.engine_correction import EngineCorrection
from tinkerscript.wire.training.losses import LOSSES, RATIO_LOSSES

TRAINER = [-1.0, -2.0, -0.5, -1.5, -0.2]
ENGINE = [-1.3, -1.8, -0.9, -1.4, -5.2]  # the last one is 5 nats off
SAMPLES = [0, 0, 1, 1, 2]
LOSS_NAMES = [name for name, loss in LOSSES.items() if loss.average]  # of a session
LEVELS = ("token", "sequence", "geometric")


def ratios(level: str) -> list[float]:
    """Written out once more."""
    gaps = [now - engine for now, engine in zip(TRAINER, ENGINE, strict=True)]
    if level == "token":
        return [math.exp(gap) for gap in gaps]
    own = [[g for g, s in zip(gaps, SAMPLES, strict=True) if s == sample] for sample in SAMPLES]
    return [math.exp(sum(each) / (len(each) if level == "geometric" else 1)) for each in own]


def found(what, **fields) -> list:
    policy, engine = (torch.tensor(each, dtype=torch.float64) for each in (TRAINER, ENGINE))
    return what(
        EngineCorrection(**fields), policy.requires_grad_(), engine, torch.tensor(SAMPLES)
    ).tolist()


@pytest.mark.parametrize("level", LEVELS)
def test_a_weight_is_the_ratio_of_its_level_within_its_bounds(level):
    fields = {"weight": level, "weight_low": 0.95, "weight_high": 1.2, "mask": "none"}
    expected = [min(max(ratio, 0.95), 1.2) for ratio in ratios(level)]
    assert found(engine_weight, **fields) == pytest.approx(expected)
    cut = found(corrected, **fields)
    assert cut == [not 0.95 <= ratio <= 1.2 for ratio in ratios(level)] and True in cut


@pytest.mark.parametrize("level", LEVELS)
def test_a_mask_leaves_out_what_is_beyond_a_bound_and_weighs_nothing_else(level):
    fields = {"weight": "none", "mask": level, "mask_low": 0.85, "mask_high": 1.2}
    outside = [not 0.85 <= ratio <= 1.2 for ratio in ratios(level)]
    assert found(left_out, **fields) == outside and {True, False} == set(outside)
    assert found(engine_weight, **fields) == [float(not out) for out in outside]
    open_above = [ratio < 0.85 for ratio in ratios(level)]
    assert found(left_out, **fields | {"mask_high": None}) == open_above


def test_a_token_beyond_the_veto_takes_its_whole_sequence_along():
    assert found(left_out, weight="none", mask="none", veto=0.7) == [False, False, True, True, True]
    assert found(left_out, weight="none", mask="none", veto=1e-4) == [False] * 5


def test_by_default_weights_are_truncated_and_a_token_that_is_far_off_is_left_out_alone():
    assert found(engine_weight) == pytest.approx([*ratios("token")[:4], 0.0])
    assert found(left_out) == [False] * 4 + [True]


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_corrected_where_engine_and_trainer_agree(level):
    """However long a sequence is: a thousand tokens of rounding are no gap of a tenth of a nat."""
    policy = torch.full((1000,), -1.0, dtype=torch.float64)
    sample = torch.zeros(1000, dtype=torch.long)
    weights = [
        engine_weight(EngineCorrection(weight=level), policy, policy - gap, sample).unique()
        for gap in (0.99e-4, 1.01e-4)  # nats
    ]
    assert weights[0].tolist() == [1.0] and weights[1].min() > 1.00005


def test_an_infinite_gap_is_left_out_and_a_number_that_is_none_is_not_hidden():
    policy, engine, sample = (
        torch.tensor([-1.0, -1.0]),
        torch.tensor([-math.inf, -1.0]),
        torch.tensor([0, 1]),
    )
    assert engine_weight(EngineCorrection(), policy, engine, sample).tolist() == [0.0, 1.0]
    inputs = LoopInputs(torch.ones(2), torch.ones(2), sample, torch.ones(2))
    loss_K = policy_loss(SessionConfig(), inputs, torch.tensor([-math.nan, -1.0]))
    assert loss_K.isnan().tolist() == [True, False]


# --- a loss under the rounding of bfloat16


def gradient(
    config: SessionConfig,
    before_K: torch.Tensor | None = None,
    engine_K: torch.Tensor | None = None,
) -> torch.Tensor:
    """Of the loss by the trainer's log-probabilities of tokens that the engine sampled."""
    drawn = rounded()
    engine_K = drawn.engine_K if engine_K is None else engine_K
    logprobs_K = drawn.trainer_K.clone().requires_grad_()
    scale_K = torch.ones_like(engine_K)
    inputs = LoopInputs(engine_K, drawn.advantages_K, drawn.sample_K, scale_K, before_K=before_K)
    policy_loss(config, inputs, logprobs_K).sum().backward()
    assert logprobs_K.grad is not None
    return logprobs_K.grad


def dead_share(gradient_K: torch.Tensor) -> float:
    """Of the sequences those without a gradient, though they have an advantage."""
    sample_K = rounded().sample_K
    sizes = [gradient_K[sample_K == sample].abs().max().item() for sample in sample_K.unique()]
    return sum(size == 0 for size in sizes) / len(sizes)


def cosine(one_K: torch.Tensor, other_K: torch.Tensor) -> float:
    return torch.nn.functional.cosine_similarity(one_K, other_K, dim=0).item()


@pytest.mark.parametrize("loss", RATIO_LOSSES)
def test_under_rounding_every_loss_keeps_the_gradient_of_every_sequence(loss):
    first = gradient(SessionConfig(loss=loss))
    assert cosine(first, -rounded().advantages_K) > 0.99
    assert dead_share(first) == 0.0


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize("gap", [5.0, -5.0, 900.0, -900.0, math.inf])
def test_one_poisoned_token_changes_the_gradient_of_no_other(loss, updates, gap):
    """``gap``: trainer - engine in nats. A loss without a ratio does not read the engine's."""
    drawn, config = rounded(), SessionConfig(loss=loss, epochs=updates)
    before_K = drawn.trainer_K - 1e-4 if updates > 1 else None
    clean_K = gradient(config, before_K)
    poisoned_K = drawn.engine_K.clone()
    poisoned_K[40] = drawn.trainer_K[40] - gap
    found_K = gradient(config, before_K, poisoned_K)
    others_K = torch.arange(len(found_K)) != 40
    assert torch.equal(found_K[others_K], clean_K[others_K])
    assert found_K[40] == (0.0 if LOSSES[loss].has_ratio else clean_K[40])
    scale_K = torch.ones_like(found_K)
    inputs = LoopInputs(poisoned_K, drawn.advantages_K, drawn.sample_K, scale_K, before_K=before_K)
    loss_value, stats = row_loss(config, inputs, drawn.trainer_K)
    told = dict(zip(STATISTICS, stats.tolist(), strict=True))
    assert loss_value.isfinite() and stats.isfinite().all()
    assert told["tokens_masked"] == float(LOSSES[loss].has_ratio)


def test_a_clip_is_compared_with_rounding_where_it_would_cut_rounding():
    """Against the engine's record GSPO's clip, far narrower than rounding, leaves half of the
    sequences dead.
    """
    drawn = rounded()
    noise = (drawn.trainer_K - drawn.engine_K).abs().mean().item()
    assert 1e-3 < noise < 0.1, "as two kernels differ in bfloat16"
    narrow = {name for name, loss in LOSSES.items() if loss.clip and loss.clip[1] < noise}
    assert narrow == {"gspo"}
    off = {"weight": "none", "mask": "none"}
    against_engine = gradient(
        SessionConfig(loss="gspo", epochs=2, engine_correction=off), drawn.engine_K
    )
    assert dead_share(against_engine) > 0.25 and cosine(against_engine, -drawn.advantages_K) < 0.9
