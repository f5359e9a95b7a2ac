"""The loss of one packed row, with what a step reports of it. Shapes: ``losses.py``."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_runtime.training.losses import clipped_tokens, policy_loss
from gpu_runtime.training.policy import RowTensors
from tinkerscript.wire.config import SessionConfig

from .regularizers import kl_estimate, kl_k3

# The columns of ``stats``: sums over the trained tokens of a row.
STATISTICS = ("loss", "kl_engine", "entropy", "clip_fraction", "tokens_trained", "kl_before", "tokens_free")


@dataclass(frozen=True)
class RowExtras:
    """What not every step has: the policy before a step of several updates, the references, the weight of entropy."""

    before_K: Tensor | None = None
    reference_K: Tensor | None = None
    base_K: Tensor | None = None
    entropy_coef: float = 0.0


def row_loss(
    config: SessionConfig, row: RowTensors, scores: Tensor, advantages_K: Tensor, scale_K: Tensor, extras: RowExtras
) -> tuple[Tensor, Tensor]:
    """(loss, stats): the row's part of sum over tokens of scale * (policy loss + kl_coef KL + kl_base_coef KL_base -
    entropy_coef H).

    ``scores`` is what ``Policy.forward`` returned: logprobs_K, or [2, K] with the entropies.
    """
    logprobs_K = scores if scores.dim() == 1 else scores[0]
    drawn = logprobs_K, row.old_K, advantages_K, row.sample_K, extras.before_K
    loss_K = policy_loss(config, *drawn)
    if extras.reference_K is not None:
        loss_K = loss_K + config.kl_coef * kl_estimate(config.kl_estimator, logprobs_K, extras.reference_K)
    if extras.base_K is not None:
        loss_K = loss_K + config.kl_base_coef * kl_estimate(config.kl_estimator, logprobs_K, extras.base_K)
    if scores.dim() > 1:
        loss_K = loss_K - extras.entropy_coef * scores[1]
    loss = (loss_K * scale_K).sum()
    with torch.no_grad():
        # KL from the engine to the trainer, by k3 on tokens that the engine sampled.
        gap_K = kl_k3(row.old_K, logprobs_K)
        moved_K = torch.zeros_like(gap_K) if extras.before_K is None else kl_k3(extras.before_K, logprobs_K)
        every_K = torch.ones_like(logprobs_K)
        # Where a grammar is, a gap can be the grammar's: a mask that another version of its compiler makes.
        free_K = every_K if row.narrowed_K is None else every_K * ~row.narrowed_K
        told_K = [gap_K * free_K, -logprobs_K, clipped_tokens(config, *drawn), every_K, moved_K, free_K]
        stats = torch.stack([loss.detach(), *(each.sum() for each in told_K)])
    return loss, stats
