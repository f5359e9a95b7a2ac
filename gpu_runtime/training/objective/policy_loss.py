"""The managed loop's losses: a named loss under the options of its session. Shapes: ``losses.py``."""

import torch
from torch import Tensor

from gpu_runtime.model_interfaces import ADVANTAGES, OLD, WEIGHTS
from gpu_runtime.training.losses import dual_clipped, mean_by_sample
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import CLIPPED_LOSSES, SURROGATE_LOSSES, clip_bounds

from .importance import beyond_cap, importance_weight
from .named_losses import HIGH, LOSSES, LOW, LossInputs

# The ratio is PPO's in all of them: they differ in their averages, which are the weights of tokens.
NAMED = {"grpo": "ppo", "dr_grpo": "ppo", "dapo": "ppo"}


def policy_loss(
    config: SessionConfig,
    logprobs_K: Tensor,
    engine_K: Tensor,
    advantages_K: Tensor,
    sample_K: Tensor,
    before_K: Tensor | None = None,
) -> Tensor:
    """``loss_K`` of ``config.loss`` on tokens that the engine sampled with log-probabilities ``engine_K``.

    ``before_K`` are those of the trainer's own policy before the step, where a batch gets several updates (computed
    once): the ratio is taken against them, and the loss's clip bounds how far the updates go.

    Without ``tis_cap`` a single update's ratio is taken against the engine's record (old = engine): staleness and
    mismatch are inside it, and the loss's own clip bounds them.

    With it, the two are taken apart (Hilton et al. 2021, arXiv:2110.00641; Yao et al. 2025, "Your Efficient RL
    Framework Secretly Brings You Off-Policy RL Training"): the ratio is against the trainer's own policy before the
    step, and the weight of ``objective/importance.py``, bounded by the cap, is a factor of its own. In a single update
    that policy is the one of this very forward pass: old = sg(logp), exact and without a second pass. The ratio is
    then 1 in value, no clip can cut it, and the gradient is -weight A grad(logp).
    """
    if config.tis_cap is None:
        old_K = engine_K if before_K is None else before_K
        return _loss(config, logprobs_K, old_K, advantages_K, sample_K)
    old_K = logprobs_K.detach() if before_K is None else before_K
    weight_K = importance_weight(
        old_K, engine_K, sample_K, config.tis_cap, level=config.tis_level, mode=config.tis_mode
    )
    return weight_K * _loss(config, logprobs_K, old_K, advantages_K, sample_K)


def _loss(config: SessionConfig, logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor, sample_K: Tensor) -> Tensor:
    """One of the losses that a Tinker client names too, under the loop's options."""
    tensors = {OLD: old_K, ADVANTAGES: advantages_K, WEIGHTS: advantages_K}
    inputs = LossInputs(logprobs_K, tensors, sample_K, _settings(config))
    loss_K = LOSSES[NAMED.get(config.loss, config.loss)].compute(inputs)
    if config.dual_clip is None or config.loss not in SURROGATE_LOSSES:
        return loss_K
    return dual_clipped(loss_K, advantages_K, config.dual_clip)


def _settings(config: SessionConfig) -> dict[str, float]:
    if config.loss == "dro":
        return {"beta": config.dro_beta}
    if config.loss not in CLIPPED_LOSSES:
        return {}
    return dict(zip((LOW, HIGH), clip_bounds(config.loss, config.clip_low, config.clip_high), strict=True))


def clipped_tokens(
    config: SessionConfig,
    logprobs_K: Tensor,
    engine_K: Tensor,
    advantages_K: Tensor,
    sample_K: Tensor,
    before_K: Tensor | None = None,
) -> Tensor:
    """Which tokens a bound of the loss changes: by its clip, its dual clip or ``tis_cap``; none where it has none.

    The surrogate takes the smaller of r A and clip(r) A, so a ratio above the clip counts where A > 0, one below it
    where A < 0. A weight (CISPO, ``tis_cap``) is cut whatever the sign. A token without advantage is never clipped.
    """
    live_K = advantages_K != 0
    nothing_K = torch.zeros_like(live_K)
    cut_K, old_K = nothing_K, engine_K if before_K is None else before_K
    if config.tis_cap is not None:
        policy_K = logprobs_K if before_K is None else before_K
        cut_K = live_K & beyond_cap(policy_K, engine_K, sample_K, config.tis_cap, level=config.tis_level)
        old_K = policy_K
    if config.loss not in CLIPPED_LOSSES:
        return cut_K
    difference_K = (logprobs_K - old_K).detach()
    if config.loss == "gspo":
        difference_K = mean_by_sample(difference_K, sample_K)[sample_K]
    ratio_K = torch.exp(difference_K)
    lowest, highest = clip_bounds(config.loss, config.clip_low, config.clip_high)
    below_K, above_K = ratio_K < lowest, ratio_K > highest
    if config.loss == "cispo":
        return cut_K | (live_K & (below_K | above_K))
    clipped_K = (above_K & (advantages_K > 0)) | (below_K & (advantages_K < 0))
    if config.dual_clip is not None:
        clipped_K = clipped_K | ((ratio_K > config.dual_clip) & (advantages_K < 0))
    return cut_K | clipped_K
