"""Policy losses as short pure functions over flat arrays of trained tokens.

Shapes: K trained tokens of a micro-batch, S samples. ``logprobs_K`` are the current policy's (they
carry the gradient), ``old_K`` the policy's that the ratio is taken against, ``engine_K`` those that
the engine recorded when it sampled, ``advantages_K`` the advantage of each token, ``sample_K`` the
index of the sample that a token belongs to. Each returns ``loss_K``: the caller multiplies by a
scale per token (``rows/loop_data.py``) and sums, so that one function serves every way of
averaging and any split into micro-batches. sg() stops the gradient.
"""

import torch
from torch import Tensor


def clipped_ratio(ratio_K: Tensor, advantages_K: Tensor, lowest: float, highest: float) -> Tensor:
    """PPO's clipped surrogate: -min(r A, clip(r, lowest, highest) A), r = exp(logp - old).

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7; clip-higher (highest > 2 - lowest): DAPO,
    arXiv:2503.14476, eq. 10. GRPO (arXiv:2402.03300), Dr. GRPO (arXiv:2503.20783) and DAPO use it
    with their own averages.
    """
    clipped_K = ratio_K.clamp(lowest, highest)
    return -torch.minimum(ratio_K * advantages_K, clipped_K * advantages_K)


def dual_clipped(loss_K: Tensor, advantages_K: Tensor, cap: float) -> Tensor:
    """Dual clip: where A < 0, at most -cap A, so that no single token with a huge ratio rules the
    step.

    max(surrogate, cap A) for A < 0, with the surrogate -loss. Source: Ye et al. 2020,
    arXiv:1912.09729, eq. 5.
    """
    return torch.where(advantages_K < 0, torch.minimum(loss_K, -cap * advantages_K), loss_K)


def sequence_ratio(
    logprobs_K: Tensor, old_K: Tensor, sample_K: Tensor, mask_K: Tensor | None = None
) -> Tensor:
    """GSPO's ratio, one per sequence: s = exp(mean_t(logp - old)), over the tokens where
    ``mask_K``, if any, is 1.

    In the per-token form of the paper (GSPO-token): its value at each token is s, and its gradient
    flows through that token's own log-probability. Source: Zheng et al. 2025, arXiv:2507.18071, eq.
    7 and 13-14.
    """
    mean_K = mean_by_sample((logprobs_K - old_K).detach(), sample_K, mask_K)[sample_K]
    return torch.exp(mean_K + logprobs_K - logprobs_K.detach())


def clipped_weight(
    logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor, lowest: float, highest: float
) -> Tensor:
    """CISPO: -sg(clip(r, lowest, highest)) A logp; clips the weight and keeps every token's
    gradient.

    Source: MiniMax-M1 2025, arXiv:2506.13585, eq. 4-5.
    """
    weight_K = torch.exp(logprobs_K - old_K).clamp(lowest, highest).detach()
    return -weight_K * advantages_K * logprobs_K


def importance_sampling(logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor) -> Tensor:
    """Unclipped off-policy policy gradient: -r A, whose gradient is -r A grad(logp). Source:
    REINFORCE with a ratio.
    """
    return -torch.exp(logprobs_K - old_K) * advantages_K


def direct_reward(logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor, beta: float) -> Tensor:
    """DRO: -(A logp - beta/2 (logp - old)^2): off-policy without a ratio, held near the sampling
    policy by a square.

    Source: Richemond et al. 2024, arXiv:2405.19107; a token at a time, as Tinker defines its
    ``dro``.
    """
    return -advantages_K * logprobs_K + 0.5 * beta * (logprobs_K - old_K).square()


def cross_entropy(logprobs_K: Tensor, weights_K: Tensor) -> Tensor:
    """-w logp, with a weight of any sign per token. Weighted by advantages it is REINFORCE
    (Williams 1992).
    """
    return -weights_K * logprobs_K


def truncated_weight(logprobs_K: Tensor, engine_K: Tensor, cap: float) -> Tensor:
    """TIS: sg(min(pi / pi_engine, cap)), the weight of a token that another policy sampled.

    Source: Ionides 2008, "Truncated importance sampling". The managed loop's:
    objective/engine_correction.py.
    """
    return torch.exp(logprobs_K.detach() - engine_K).clamp(max=cap)


def mean_by_sample(values_K: Tensor, sample_K: Tensor, mask_K: Tensor | None = None) -> Tensor:
    """``mean_S`` over the tokens of each sample, those where ``mask_K`` is 1; 0 for an index
    without a token.
    """
    if mask_K is None:
        mask_K = torch.ones_like(values_K)
    counts_S = sum_by_sample(mask_K, sample_K)
    return sum_by_sample(values_K * mask_K, sample_K) / counts_S.clamp(min=1)


def sum_by_sample(values_K: Tensor, sample_K: Tensor) -> Tensor:
    """``sum_S`` over the tokens of each sample."""
    samples = int(sample_K.max()) + 1 if len(sample_K) else 0
    zeros_S = torch.zeros(samples, dtype=values_K.dtype, device=values_K.device)
    return zeros_S.index_add(0, sample_K, values_K)
