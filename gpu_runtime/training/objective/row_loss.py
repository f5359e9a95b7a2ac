"""The managed loop's loss of one packed row under the options of its session, with what a step
reports of it. Shapes: ``losses.py``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_runtime.model_interfaces import BEFORE
from gpu_runtime.training.losses import (
    FORMULAS,
    LossInputs,
    dual_clipped,
    kl_estimate,
    kl_k3,
    mean_by_sample,
)
from gpu_runtime.training.rows.tensors import RowTensors
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.engine_correction import FARTHEST
from tinkerscript.wire.training.losses import (
    ADVANTAGES,
    HIGH,
    LOSSES,
    LOW,
    OLD,
    WEIGHTS,
    clip_bounds,
)

from .engine_correction import corrected, engine_weight, left_out

# The columns of ``stats``: sums over the trained tokens of a row.
STATISTICS = (
    "loss",
    "kl_engine",
    "entropy",
    "clip_fraction",
    "tokens_trained",
    "kl_before",
    "tokens_free",
    "tokens_masked",
    "kl_reference",
)


@dataclass(frozen=True)
class LoopInputs:
    """What a row's loss is computed from, beside the policy's own log-probabilities.

    ``engine_K`` are those that the engine recorded when it sampled. The policy before a step of
    several updates and the references are not in every step. ``before_K``: the trainer's own
    log-probabilities before the step, in its second update and later.
    """

    engine_K: Tensor
    advantages_K: Tensor
    sample_K: Tensor
    scale_K: Tensor
    narrowed_K: Tensor | None = None
    before_K: Tensor | None = None
    reference_K: Tensor | None = None
    base_K: Tensor | None = None

    @classmethod
    def of(
        cls, row: RowTensors, *, reference_K: Tensor | None = None, base_K: Tensor | None = None
    ) -> "LoopInputs":
        """Those of the data of ``row``, with what is not in them."""
        engine, advantages, scale = (row.loss_input(key) for key in (OLD, ADVANTAGES, WEIGHTS))
        before = row.loss_input(BEFORE) if row.has(BEFORE) else None
        own = engine, advantages, row.datum_K, scale, row.narrowed_K, before
        return cls(*own, reference_K, base_K)

    def old_K(self, logprobs_K: Tensor) -> Tensor:
        """The policy that the ratio is taken against: the trainer's own before the step.

        In the first update that is the policy itself, so that sg(logp) stands for it: exact, and
        without a second pass.
        """
        return logprobs_K.detach() if self.before_K is None else self.before_K


def row_loss(config: SessionConfig, inputs: LoopInputs, scores: Tensor) -> tuple[Tensor, Tensor]:
    """(loss, stats): the row's part of sum over tokens of scale * (policy loss + kl_coef KL +
    kl_base_coef KL_base - entropy_coef H).

    ``scores`` is what ``Policy.forward`` returned: logprobs_K, or [2, K] with the entropies.
    """
    logprobs_K = scores if scores.dim() == 1 else scores[0]
    loss_K = policy_loss(config, inputs, logprobs_K)
    if inputs.reference_K is not None:
        loss_K = loss_K + config.kl_coef * kl_estimate(
            config.kl_estimator, logprobs_K, inputs.reference_K
        )
    if inputs.base_K is not None:
        loss_K = loss_K + config.kl_base_coef * kl_estimate(
            config.kl_estimator, logprobs_K, inputs.base_K
        )
    if scores.dim() > 1:
        loss_K = loss_K - config.entropy_coef * scores[1]
    loss = (loss_K * inputs.scale_K).sum()
    with torch.no_grad():
        # KL from the engine to the trainer, by k3 on tokens that the engine sampled. A token that
        # is far off is left out of the loss, and must not make the mean infinite.
        apart_K = (logprobs_K - inputs.engine_K).clamp(-FARTHEST, FARTHEST)
        gap_K = torch.expm1(apart_K) - apart_K
        moved_K = (
            torch.zeros_like(gap_K)
            if inputs.before_K is None
            else kl_k3(inputs.before_K, logprobs_K)
        )
        from_reference_K = (
            torch.zeros_like(gap_K)
            if inputs.reference_K is None
            else kl_k3(logprobs_K, inputs.reference_K)
        )
        every_K = torch.ones_like(logprobs_K)
        # Where a grammar is, a gap can be the grammar's: a mask that another version of its
        # compiler makes.
        free_K = every_K if inputs.narrowed_K is None else every_K * ~inputs.narrowed_K
        masked_K = torch.zeros_like(gap_K)
        if LOSSES[config.loss].has_ratio:
            masked_K = left_out(
                config.engine_correction,
                inputs.old_K(logprobs_K),
                inputs.engine_K,
                inputs.sample_K,
            )
        told_K = [
            gap_K * free_K,
            -logprobs_K,
            clipped_tokens(config, inputs, logprobs_K),
            every_K,
            moved_K,
            free_K,
            masked_K,
            from_reference_K,
        ]
        stats = torch.stack([loss.detach(), *(each.sum() for each in told_K)])
    return loss, stats


def policy_loss(config: SessionConfig, inputs: LoopInputs, logprobs_K: Tensor) -> Tensor:
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
    old_K, advantages_K = inputs.old_K(logprobs_K), inputs.advantages_K
    tensors = {OLD: old_K, ADVANTAGES: advantages_K, WEIGHTS: advantages_K}
    loss = LOSSES[config.loss]
    loss_K = FORMULAS[config.loss](
        LossInputs(logprobs_K, tensors, inputs.sample_K, _settings(config))
    )
    if config.dual_clip is not None and loss.is_surrogate:
        loss_K = dual_clipped(loss_K, advantages_K, config.dual_clip)
    if not loss.has_ratio:
        return loss_K
    weight_K = engine_weight(config.engine_correction, old_K, inputs.engine_K, inputs.sample_K)
    return weight_K * loss_K


def _settings(config: SessionConfig) -> dict[str, float]:
    if config.loss == "dro":
        return {"beta": config.dro_beta}
    if LOSSES[config.loss].clip is None:
        return {}
    return dict(
        zip((LOW, HIGH), clip_bounds(config.loss, config.clip_low, config.clip_high), strict=True)
    )


def clipped_tokens(config: SessionConfig, inputs: LoopInputs, logprobs_K: Tensor) -> Tensor:
    """Which tokens a bound changes: of the loss's clip, of its dual clip, or of the engine
    correction.

    The surrogate takes the smaller of r A and clip(r) A, so a ratio above the clip counts where A >
    0, one below it where A < 0. A weight (CISPO, the correction) is cut whatever the sign. A token
    without advantage is never clipped.
    """
    advantages_K = inputs.advantages_K
    live_K = advantages_K != 0
    cut_K = torch.zeros_like(live_K)
    loss = LOSSES[config.loss]
    if loss.has_ratio:
        cut_K = live_K & corrected(
            config.engine_correction, inputs.old_K(logprobs_K), inputs.engine_K, inputs.sample_K
        )
    if loss.clip is None or inputs.before_K is None:  # without it the ratio is 1
        return cut_K
    difference_K = (logprobs_K - inputs.before_K).detach()
    if config.loss == "gspo":
        difference_K = mean_by_sample(difference_K, inputs.sample_K)[inputs.sample_K]
    ratio_K = torch.exp(difference_K)
    lowest, highest = clip_bounds(config.loss, config.clip_low, config.clip_high)
    below_K, above_K = ratio_K < lowest, ratio_K > highest
    if config.loss == "cispo":
        return cut_K | (live_K & (below_K | above_K))
    clipped_K = (above_K & (advantages_K > 0)) | (below_K & (advantages_K < 0))
    if config.dual_clip is not None:
        clipped_K = clipped_K | ((ratio_K > config.dual_clip) & (advantages_K < 0))
    return cut_K | clipped_K
