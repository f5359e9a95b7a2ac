"""The managed loop's losses: a named loss under the options of its session. Shapes:
``losses.py``.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gpu_runtime.training.losses import dual_clipped, mean_by_sample
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import (
    ADVANTAGES,
    HIGH,
    LOSSES,
    LOW,
    OLD,
    WEIGHTS,
    clip_bounds,
)

from .engine_correction import corrected, engine_weight
from .named_losses import FORMULAS, LossInputs


class LossTokens(NamedTuple):
    """The trained tokens of a row.

    ``before_K``: the trainer's own log-probabilities before the step, in its second update and
    later. In the first one the policy before the step is the policy itself, so that None stands for
    sg(logp): exact, and without a second pass.
    """

    logprobs_K: Tensor
    engine_K: Tensor
    advantages_K: Tensor
    sample_K: Tensor
    before_K: Tensor | None = None

    @property
    def old_K(self) -> Tensor:
        """The policy that the ratio is taken against: the trainer's own before the step."""
        return self.logprobs_K.detach() if self.before_K is None else self.before_K


def policy_loss(config: SessionConfig, tokens: LossTokens) -> Tensor:
    """``loss_K`` of ``config.loss`` on tokens that the engine sampled: weight_K * loss(r_K), r =
    exp(logp - old).

    The two things that a ratio to the engine's record would mix are taken apart (Hilton et al.
    2021, arXiv:2110.00641; Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You
    Off-Policy RL Training"). The ratio is against the trainer's own policy before the step, so that
    the loss's clip bounds how far the updates of a step go. What engine and staleness make of a
    token is the factor ``engine_weight``, bounded by the options of ``engine_correction``.

    In a single update the ratio is 1 in value, no clip can cut it, and the gradient is -weight A
    grad(logp): a clip narrower than rounding, as GSPO's of 3e-4, cuts what the loss means and not
    what two kernels differ by.
    """
    loss_K = _loss(config, tokens)
    if not LOSSES[config.loss].has_ratio:
        return loss_K
    return (
        engine_weight(config.engine_correction, tokens.old_K, tokens.engine_K, tokens.sample_K)
        * loss_K
    )


def _loss(config: SessionConfig, tokens: LossTokens) -> Tensor:
    """One of the losses that a Tinker client names too, under the loop's options."""
    tensors = {OLD: tokens.old_K, ADVANTAGES: tokens.advantages_K, WEIGHTS: tokens.advantages_K}
    inputs = LossInputs(tokens.logprobs_K, tensors, tokens.sample_K, _settings(config))
    loss_K = FORMULAS[config.loss](inputs)
    if config.dual_clip is None or not LOSSES[config.loss].is_surrogate:
        return loss_K
    return dual_clipped(loss_K, tokens.advantages_K, config.dual_clip)


def _settings(config: SessionConfig) -> dict[str, float]:
    if config.loss == "dro":
        return {"beta": config.dro_beta}
    if LOSSES[config.loss].clip is None:
        return {}
    return dict(
        zip((LOW, HIGH), clip_bounds(config.loss, config.clip_low, config.clip_high), strict=True)
    )


def clipped_tokens(config: SessionConfig, tokens: LossTokens) -> Tensor:
    """Which tokens a bound changes: of the loss's clip, of its dual clip, or of the engine
    correction.

    The surrogate takes the smaller of r A and clip(r) A, so a ratio above the clip counts where A >
    0, one below it where A < 0. A weight (CISPO, the correction) is cut whatever the sign. A token
    without advantage is never clipped.
    """
    live_K = tokens.advantages_K != 0
    cut_K = torch.zeros_like(live_K)
    loss = LOSSES[config.loss]
    if loss.has_ratio:
        cut_K = live_K & corrected(
            config.engine_correction, tokens.old_K, tokens.engine_K, tokens.sample_K
        )
    if loss.clip is None or tokens.before_K is None:  # without it the ratio is 1
        return cut_K
    difference_K = (tokens.logprobs_K - tokens.before_K).detach()
    if config.loss == "gspo":
        difference_K = mean_by_sample(difference_K, tokens.sample_K)[tokens.sample_K]
    ratio_K = torch.exp(difference_K)
    lowest, highest = clip_bounds(config.loss, config.clip_low, config.clip_high)
    below_K, above_K = ratio_K < lowest, ratio_K > highest
    if config.loss == "cispo":
        return cut_K | (live_K & (below_K | above_K))
    clipped_K = (above_K & (tokens.advantages_K > 0)) | (below_K & (tokens.advantages_K < 0))
    if config.dual_clip is not None:
        clipped_K = clipped_K | ((ratio_K > config.dual_clip) & (tokens.advantages_K < 0))
    return cut_K | clipped_K
