"""The loss of one packed row, with what a step reports of it. Shapes: ``losses.py``."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gpu_runtime.training.rows.loop_data import BEFORE
from gpu_runtime.training.rows.tensors import RowTensors
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import ADVANTAGES, LOSSES, OLD, WEIGHTS
from tinkerscript.wire.training.ratios import FARTHEST

from .engine_correction import left_out
from .policy_loss import LossTokens, clipped_tokens, policy_loss
from .regularizers import kl_estimate, kl_k3

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
)


@dataclass(frozen=True)
class LoopInputs:
    """What a row's loss is computed from, beside the policy's own log-probabilities.

    The policy before a step of several updates and the references are not in every step.
    """

    old_K: Tensor
    advantages_K: Tensor
    scale_K: Tensor
    sample_K: Tensor
    narrowed_K: Tensor | None = None
    before_K: Tensor | None = None
    reference_K: Tensor | None = None
    base_K: Tensor | None = None

    @classmethod
    def of(cls, row: RowTensors, **others: Any) -> "LoopInputs":
        """Those of the data of ``row``, with ``others`` that are not in them."""
        old, advantages, scale = (row.loss_input(key) for key in (OLD, ADVANTAGES, WEIGHTS))
        before = row.loss_input(BEFORE) if row.has(BEFORE) else None
        return cls(old, advantages, scale, row.datum_K, row.narrowed_K, before, **others)


def row_loss(config: SessionConfig, inputs: LoopInputs, scores: Tensor) -> tuple[Tensor, Tensor]:
    """(loss, stats): the row's part of sum over tokens of scale * (policy loss + kl_coef KL +
    kl_base_coef KL_base - entropy_coef H).

    ``scores`` is what ``Policy.forward`` returned: logprobs_K, or [2, K] with the entropies.
    """
    logprobs_K = scores if scores.dim() == 1 else scores[0]
    tokens = LossTokens(
        logprobs_K, inputs.old_K, inputs.advantages_K, inputs.sample_K, inputs.before_K
    )
    loss_K = policy_loss(config, tokens)
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
        apart_K = (logprobs_K - inputs.old_K).clamp(-FARTHEST, FARTHEST)
        gap_K = torch.expm1(apart_K) - apart_K
        moved_K = (
            torch.zeros_like(gap_K)
            if inputs.before_K is None
            else kl_k3(inputs.before_K, logprobs_K)
        )
        every_K = torch.ones_like(logprobs_K)
        # Where a grammar is, a gap can be the grammar's: a mask that another version of its
        # compiler makes.
        free_K = every_K if inputs.narrowed_K is None else every_K * ~inputs.narrowed_K
        masked_K = torch.zeros_like(gap_K)
        if LOSSES[config.loss].has_ratio:
            masked_K = left_out(
                config.engine_correction, tokens.old_K, tokens.engine_K, tokens.sample_K
            )
        told_K = [
            gap_K * free_K,
            -logprobs_K,
            clipped_tokens(config, tokens),
            every_K,
            moved_K,
            free_K,
            masked_K,
        ]
        stats = torch.stack([loss.detach(), *(each.sum() for each in told_K)])
    return loss, stats
