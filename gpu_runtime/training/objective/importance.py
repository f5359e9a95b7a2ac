"""What a token weighs that another policy sampled than the one whose gradient is taken. Shapes: ``losses.py``."""

import torch
from torch import Tensor


def importance_weight(
    policy_K: Tensor, engine_K: Tensor, sample_K: Tensor, cap: float, *, level: str, mode: str
) -> Tensor:
    """sg(w) with w = pi / pi_engine of the token, or of its whole sample (``level`` "sequence"), kept below ``cap``.

    token     w_t = exp(logp_t - engine_t)               a token at a time: biased, and bounded however long a sample is
    sequence  w = exp(sum_t logp_t - engine_t)           of all trained tokens of its sample: what was sampled together
    truncate  min(w, cap)                                Ionides 2008, "Truncated importance sampling"
    mask      w where w <= cap, else 0                   what is too far off teaches nothing: Liu et al. 2025, "When
                                                         Speed Kills Stability"; as TRL's token_mask and sequence_mask
    """
    gap_K = policy_K.detach() - engine_K
    if level == "sequence":
        gap_K = sum_by_sample(gap_K, sample_K)[sample_K]
    weight_K = torch.exp(gap_K)
    return weight_K.clamp(max=cap) if mode == "truncate" else weight_K * (weight_K <= cap)


def beyond_cap(policy_K: Tensor, engine_K: Tensor, sample_K: Tensor, cap: float, *, level: str) -> Tensor:
    """Which tokens' weight the cap changes."""
    gap_K = policy_K.detach() - engine_K
    if level == "sequence":
        gap_K = sum_by_sample(gap_K, sample_K)[sample_K]
    return torch.exp(gap_K) > cap


def sum_by_sample(values_K: Tensor, sample_K: Tensor) -> Tensor:
    """``sum_S`` over the tokens of each sample."""
    samples = int(sample_K.max()) + 1 if len(sample_K) else 0
    zeros_S = torch.zeros(samples, dtype=values_K.dtype, device=values_K.device)
    return zeros_S.index_add(0, sample_K, values_K)
