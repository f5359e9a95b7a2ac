"""Policy losses as short pure functions over flat arrays of trained tokens.

Shapes: K trained tokens of a micro-batch, S samples. ``logprobs_K`` are the current policy's (they carry the
gradient), ``old_K`` the sampling policy's, ``advantages_K`` the episode's advantage at each of its tokens, ``sample_K``
the index of the sample that a token belongs to. Each returns ``loss_K``: the caller multiplies by a scale per token
(``token_scales``) and sums, so that one function serves every way of averaging and any split into micro-batches.
"""

import torch
from torch import Tensor


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
    difference_K = logprobs_K - old_K
    mean_S = _mean_by_sample(difference_K.detach(), sample_K)
    ratio_K = torch.exp(mean_S[sample_K] + logprobs_K - logprobs_K.detach())
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


def kl_k3(logprobs_K: Tensor, reference_K: Tensor) -> Tensor:
    """Schulman's k3 estimate of KL(policy || reference): exp(d) - d - 1 with d = reference - logp; never negative."""
    difference_K = reference_K - logprobs_K
    return torch.exp(difference_K) - difference_K - 1


def policy_loss(
    name: str, logprobs_K: Tensor, old_K: Tensor, advantages_K: Tensor, sample_K: Tensor, low: float, high: float
) -> Tensor:
    """``loss_K`` of the loss called ``name`` (tinkerscript.wire.config.LossName)."""
    if name in ("grpo", "dr_grpo", "dapo", "ppo"):
        return clipped_ratio(logprobs_K, old_K, advantages_K, low, high)
    if name == "gspo":
        return sequence_ratio(logprobs_K, old_K, advantages_K, sample_K, low, high)
    if name == "cispo":
        return clipped_weight(logprobs_K, old_K, advantages_K, low, high)
    if name == "importance_sampling":
        return importance_sampling(logprobs_K, old_K, advantages_K)
    raise ValueError(f"unknown loss {name!r}")


def token_scales(name: str, lengths_S: list[int], weights_S: list[float], max_tokens: int) -> list[float]:
    """The factor of each sample's tokens in the sum over the whole batch.

    ``lengths_S`` counts trained tokens, ``weights_S`` sums to 1 over the samples of one episode, E = sum(weights_S).

    - grpo, gspo, importance_sampling: weight / (E * length): mean over tokens, then episodes (arXiv:2402.03300, eq. 3)
    - dr_grpo: weight / (E * max_tokens): a constant instead of the length, which rewards no brevity (arXiv:2503.20783)
    - dapo, ppo, cispo: 1 / (all trained tokens): every token counts the same (arXiv:2503.14476, eq. 8)
    """
    episodes = sum(weights_S)
    if name in ("grpo", "gspo", "importance_sampling"):
        return [w / (episodes * n) if n else 0.0 for n, w in zip(lengths_S, weights_S, strict=True)]
    if name == "dr_grpo":
        return [w / (episodes * max_tokens) for w in weights_S]
    return [1.0 / max(1, sum(lengths_S))] * len(lengths_S)


def _mean_by_sample(values_K: Tensor, sample_K: Tensor) -> Tensor:
    samples = int(sample_K.max()) + 1 if len(sample_K) else 0
    zeros_S = torch.zeros(samples, dtype=values_K.dtype, device=values_K.device)
    counts_S = zeros_S.index_add(0, sample_K, torch.ones_like(values_K))
    return zeros_S.index_add(0, sample_K, values_K) / counts_S.clamp(min=1)
