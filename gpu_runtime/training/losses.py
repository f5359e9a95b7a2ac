"""Policy losses as short pure functions over flat arrays of trained tokens.

Shapes: K trained tokens of a micro-batch, S samples. ``logprobs_K`` are the current policy's (they carry the
gradient), ``old_K`` the policy's that the ratio is taken against, ``engine_K`` those that the engine recorded when it
sampled, ``advantages_K`` the advantage of each token, ``sample_K`` the index of the sample that a token belongs to.
Each returns ``loss_K``: the caller multiplies by a scale per token (``token_scales``) and sums, so that one function
serves every way of averaging and any split into micro-batches. sg() stops the gradient.
"""

import torch
from torch import Tensor

from tinkerscript.wire.config import SessionConfig


def clipped_ratio(logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor, low: float, high: float) -> Tensor:
    """PPO's clipped surrogate: -min(r A, clip(r, 1-low, 1+high) A), r = exp(logp - old).

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7; clip-higher (high > low): DAPO, arXiv:2503.14476, eq. 10.
    GRPO (arXiv:2402.03300), Dr. GRPO (arXiv:2503.20783) and DAPO use it with their own averages.
    """
    ratio_K = torch.exp(logprobs_K - old_K)
    clipped_K = ratio_K.clamp(1 - low, 1 + high)
    return -torch.minimum(ratio_K * advantages_K, clipped_K * advantages_K)


def sequence_ratio(
    logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor, sample_K: Tensor, low: float, high: float
) -> Tensor:
    """GSPO's surrogate with one ratio per sequence: s = exp(mean_t(logp - old)), -min(s A, clip(s) A).

    The per-token form of the paper (GSPO-token) whose value at each token is s and whose gradient flows through that
    token's own log-probability. Source: Zheng et al. 2025, arXiv:2507.18071, eq. 7 and 13-14.
    """
    mean_K = _mean_by_sample((logprobs_K - old_K).detach(), sample_K)[sample_K]
    ratio_K = torch.exp(mean_K + logprobs_K - logprobs_K.detach())
    clipped_K = ratio_K.clamp(1 - low, 1 + high)
    return -torch.minimum(ratio_K * advantages_K, clipped_K * advantages_K)


def clipped_weight(logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor, low: float, high: float) -> Tensor:
    """CISPO: -sg(clip(r, 1-low, 1+high)) A logp; clips the weight and keeps every token's gradient.

    Source: MiniMax-M1 2025, arXiv:2506.13585, eq. 4-5.
    """
    weight_K = torch.exp(logprobs_K - old_K).clamp(1 - low, 1 + high).detach()
    return -weight_K * advantages_K * logprobs_K


def importance_sampling(logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor) -> Tensor:
    """Unclipped off-policy policy gradient: -r A, whose gradient is -r A grad(logp). Source: REINFORCE with a ratio."""
    return -torch.exp(logprobs_K - old_K) * advantages_K


def direct_reward(logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor, beta: float) -> Tensor:
    """DRO: -(A logp - beta/2 (logp - old)^2): off-policy without a ratio, held near the sampling policy by a square.

    Source: Richemond et al. 2024, arXiv:2405.19107; a token at a time, as Tinker defines its ``dro``.
    """
    return -advantages_K * logprobs_K + 0.5 * beta * (logprobs_K - old_K).square()


def cross_entropy(logprobs_K: Tensor, weights_K: Tensor) -> Tensor:
    """-w logp, with a weight of any sign per token. Weighted by advantages it is REINFORCE (Williams 1992)."""
    return -weights_K * logprobs_K


def truncated_weight(logprobs_K: Tensor, engine_K: Tensor, cap: float) -> Tensor:
    """TIS: sg(min(pi / pi_engine, cap)), the weight of a token that another policy sampled.

    Source: Ionides 2008, "Truncated importance sampling"; between an engine and its trainer: Yao et al. 2025, "Your
    Efficient RL Framework Secretly Brings You Off-Policy RL Training".
    """
    return torch.exp(logprobs_K.detach() - engine_K).clamp(max=cap)


def kl_k3(logprobs_K: Tensor, reference_K: Tensor) -> Tensor:
    """Schulman's k3 estimate of KL(policy || reference): exp(d) - 1 - d, d = reference - logp. Never below 0.

    Source: Schulman 2020, "Approximating KL divergence". expm1, because exp(d) - 1 - d in fp32 is 0 for |d| < 3e-4.
    """
    difference_K = reference_K - logprobs_K
    return torch.expm1(difference_K) - difference_K


def policy_loss(
    config: SessionConfig, logprobs_K: Tensor, engine_K: Tensor, advantages_K: Tensor, sample_K: Tensor
) -> Tensor:
    """``loss_K`` of ``config.loss`` on tokens that the engine sampled with log-probabilities ``engine_K``.

    Without ``tis_cap`` the ratio is taken against the engine's record (old = engine): staleness and mismatch are
    inside it, and the loss's own clip bounds them.

    With it, the two are taken apart (Hilton et al. 2021, arXiv:2110.00641; Yao et al. 2025): the ratio is against the
    trainer's own policy before the step, and min(pi_old / pi_engine, cap) is a factor of its own. A batch gets one
    optimizer step, so that policy is the one of this very forward pass: old = sg(logp), exact and without a second
    pass. The ratio is then 1 in value, no clip can cut it, and the gradient is -min(pi/pi_engine, cap) A grad(logp).
    """
    if config.tis_cap is None:
        return _loss(config, logprobs_K, engine_K, advantages_K, sample_K)
    weight_K = truncated_weight(logprobs_K, engine_K, config.tis_cap)
    return weight_K * _loss(config, logprobs_K, logprobs_K.detach(), advantages_K, sample_K)


def _loss(config: SessionConfig, logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor, sample_K: Tensor) -> Tensor:
    name, low, high = config.loss, config.clip_low, config.clip_high
    if name == "gspo":
        return sequence_ratio(logprobs_K, old_K, advantages_K, sample_K, low, high)
    if name == "cispo":
        return clipped_weight(logprobs_K, old_K, advantages_K, low, high)
    if name == "importance_sampling":
        return importance_sampling(logprobs_K, old_K, advantages_K)
    if name == "dro":
        return direct_reward(logprobs_K, old_K, advantages_K, config.dro_beta)
    if name == "cross_entropy":
        return cross_entropy(logprobs_K, advantages_K)
    return clipped_ratio(logprobs_K, old_K, advantages_K, low, high)  # grpo, dr_grpo, dapo, ppo


def bounded_tokens(config: SessionConfig, logprobs_K: Tensor, engine_K: Tensor, sample_K: Tensor) -> Tensor:
    """Which tokens' ratio lies beyond the bounds of the loss: its clip or ``tis_cap``; none where it has neither."""
    difference_K = (logprobs_K - engine_K).detach()
    if config.tis_cap is not None:
        return torch.exp(difference_K) > config.tis_cap
    if config.loss in ("importance_sampling", "dro", "cross_entropy"):
        return torch.zeros_like(difference_K, dtype=torch.bool)
    if config.loss == "gspo":
        difference_K = _mean_by_sample(difference_K, sample_K)[sample_K]
    ratio_K = torch.exp(difference_K)
    return (ratio_K < 1 - config.clip_low) | (ratio_K > 1 + config.clip_high)


def token_scales(name: str, lengths_S: list[int], weights_S: list[float], max_tokens: int) -> list[float]:
    """The factor of each sample's tokens in the sum over the whole batch.

    ``lengths_S`` counts trained tokens, ``weights_S`` sums to 1 over the samples of one episode, E = sum(weights_S).

    - grpo, gspo, importance_sampling, dro: weight / (E * length): mean over tokens, then episodes (arXiv:2402.03300,
      eq. 3)
    - dr_grpo: weight / (E * max_tokens): a constant instead of the length, which rewards no brevity (arXiv:2503.20783)
    - dapo, ppo, cispo, cross_entropy: 1 / (all trained tokens): every token counts the same (arXiv:2503.14476, eq. 8)
    """
    episodes = sum(weights_S)
    if name in ("grpo", "gspo", "importance_sampling", "dro"):
        return [w / (episodes * n) if n else 0.0 for n, w in zip(lengths_S, weights_S, strict=True)]
    if name == "dr_grpo":
        return [w / (episodes * max_tokens) for w in weights_S]
    return [1.0 / max(1, sum(lengths_S))] * len(lengths_S)


def _mean_by_sample(values_K: Tensor, sample_K: Tensor) -> Tensor:
    samples = int(sample_K.max()) + 1 if len(sample_K) else 0
    zeros_S = torch.zeros(samples, dtype=values_K.dtype, device=values_K.device)
    counts_S = zeros_S.index_add(0, sample_K, torch.ones_like(values_K))
    return zeros_S.index_add(0, sample_K, values_K) / counts_S.clamp(min=1)
