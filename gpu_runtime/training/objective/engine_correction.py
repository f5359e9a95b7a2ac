"""What a sampled token counts, because the engine that sampled it is not quite the trainer. Shapes:
``losses.py``.

The gap of a token is d_t = logp_t - engine_t, and 0 where it is at most AGREES: the two agree
there. A ratio of it:

token       r_t = exp(d_t)               biased, and bounded however long an answer is
sequence    r = exp(sum_t d_t)           of the trained tokens of its sample: unbiased, and far
                                         from 1 on long answers
geometric   r = exp(mean_t d_t)          the same per token: it finds a sample that is off as a whole

weight      min(max(r, low), high)       Ionides 2008, "Truncated importance sampling"; Yao et al.
                                         2025, "Your Efficient RL Framework Secretly Brings You
                                         Off-Policy RL Training"
mask        0 where r < low or r > high  Liu et al. 2025, "When Speed Kills Stability"
veto        0 for a sample with a token whose r_t < veto or r_t > 1 / veto (the same, section on
            catastrophic tokens)

All of it is without a gradient: sg(logp) of the policy before the step.
"""

import math

import torch
from torch import Tensor

from gpu_runtime.training.losses import mean_by_sample, sum_by_sample
from tinkerscript.wire.training.engine_correction import AGREES, EngineCorrection, Level


def engine_weight(
    correction: EngineCorrection, policy_K: Tensor, engine_K: Tensor, sample_K: Tensor
) -> Tensor:
    """``weight_K``: what a token's loss is multiplied by, 0 where it is left out."""
    gap_K = engine_gap(policy_K, engine_K)
    weight_K = torch.ones_like(gap_K)
    if correction.weight != "none":
        ratio_K = torch.exp(_at_level(correction.weight, gap_K, sample_K))
        weight_K = ratio_K.clamp(min=correction.weight_low, max=correction.weight_high)
    return weight_K * ~left_out(correction, policy_K, engine_K, sample_K)


def left_out(
    correction: EngineCorrection, policy_K: Tensor, engine_K: Tensor, sample_K: Tensor
) -> Tensor:
    """Which tokens the mask or the veto leaves out of the loss."""
    gap_K = engine_gap(policy_K, engine_K)
    out_K = torch.zeros_like(gap_K, dtype=torch.bool)
    if correction.mask != "none":
        ratio_K = torch.exp(_at_level(correction.mask, gap_K, sample_K))
        out_K = _outside(ratio_K, correction.mask_low, correction.mask_high)
    if correction.veto is not None:
        beyond_K = gap_K.abs() > -math.log(correction.veto)
        out_K = out_K | (sum_by_sample(beyond_K.to(gap_K.dtype), sample_K)[sample_K] > 0)
    return out_K


def corrected(
    correction: EngineCorrection, policy_K: Tensor, engine_K: Tensor, sample_K: Tensor
) -> Tensor:
    """Which tokens a bound of the correction changes: their weight is cut or raised to it, or they
    are left out.
    """
    out_K = left_out(correction, policy_K, engine_K, sample_K)
    if correction.weight == "none":
        return out_K
    ratio_K = torch.exp(_at_level(correction.weight, engine_gap(policy_K, engine_K), sample_K))
    return out_K | _outside(ratio_K, correction.weight_low, correction.weight_high)


def engine_gap(policy_K: Tensor, engine_K: Tensor) -> Tensor:
    """sg(logp) - engine in nats, 0 where the two agree."""
    gap_K = policy_K.detach() - engine_K
    return torch.where(gap_K.abs() <= AGREES, torch.zeros_like(gap_K), gap_K)


def _at_level(level: Level, gap_K: Tensor, sample_K: Tensor) -> Tensor:
    if level == "sequence":
        return sum_by_sample(gap_K, sample_K)[sample_K]
    return mean_by_sample(gap_K, sample_K)[sample_K] if level == "geometric" else gap_K


def _outside(ratio_K: Tensor, low: float | None, high: float | None) -> Tensor:
    out_K = torch.zeros_like(ratio_K, dtype=torch.bool)
    if low is not None:
        out_K = out_K | (ratio_K < low)
    return out_K if high is None else out_K | (ratio_K > high)
