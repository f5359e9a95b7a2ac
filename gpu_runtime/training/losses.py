"""The losses of ``tinkerscript.wire.training.losses`` as short pure functions over flat arrays of
trained tokens, and what a step adds to one: distance to a reference, and entropy.

Shapes: K trained tokens of a row, in any order; S samples, or data; V the vocabulary.
``logprobs_K`` are the current policy's (they carry the gradient), ``old_K`` the policy's that the
ratio is taken against, ``advantages_K`` the advantage of each token, ``sample_K`` the index of the
sample that a token belongs to. Each loss returns ``loss_K``: the caller multiplies by a scale per
token (``loop/data.py``) and sums, so that one function serves every way of averaging and any
split into rows. sg() stops the gradient.

Names and conventions are those of the ``tinker`` client (0.38): ratio thresholds are absolute
bounds of the ratio r = exp(logprobs - old), not distances from 1; nothing is divided by lengths or
counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tinkerscript.wire.training.losses import (
    ADVANTAGES,
    HIGH,
    LOSSES,
    LOW,
    OLD,
    RATIO_MASK,
    WEIGHTS,
)


@dataclass(frozen=True)
class LossInputs:
    """What a loss is computed from: the tensors by their names on the wire, and every setting."""

    logprobs_K: Tensor
    tensors: Mapping[str, Tensor]
    sample_K: Tensor
    settings: Mapping[str, float]

    @property
    def ratio_terms(self) -> tuple[Tensor, Tensor, Tensor]:
        """``logprobs_K``, those at sampling, advantages."""
        return self.logprobs_K, self.tensors[OLD], self.tensors[ADVANTAGES]

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest ratio."""
        return self.settings[LOW], self.settings[HIGH]


def cross_entropy(inputs: LossInputs) -> Tensor:
    """-w logp, with a weight of any sign and size per token: a client's own loss arrives as w = -d
    loss / d logp. Weighted by advantages it is REINFORCE (Williams 1992).
    """
    return -inputs.tensors[WEIGHTS] * inputs.logprobs_K


def importance_sampling(inputs: LossInputs) -> Tensor:
    """Unclipped off-policy policy gradient: -r A, whose gradient is -r A grad(logp). Source:
    REINFORCE with a ratio.
    """
    logprobs_K, old_K, advantages_K = inputs.ratio_terms
    return -torch.exp(logprobs_K - old_K) * advantages_K


def ppo(inputs: LossInputs) -> Tensor:
    """-min(r A, clip(r, low, high) A), which GRPO (arXiv:2402.03300), Dr. GRPO (arXiv:2503.20783)
    and DAPO use with their own averages.
    """
    logprobs_K, old_K, advantages_K = inputs.ratio_terms
    return clipped_ratio(torch.exp(logprobs_K - old_K), advantages_K, *inputs.bounds)


def clipped_ratio(ratio_K: Tensor, advantages_K: Tensor, lowest: float, highest: float) -> Tensor:
    """PPO's clipped surrogate: -min(r A, clip(r, lowest, highest) A), r = exp(logp - old).

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7; clip-higher (highest > 2 - lowest): DAPO,
    arXiv:2503.14476, eq. 10.
    """
    clipped_K = ratio_K.clamp(lowest, highest)
    return -torch.minimum(ratio_K * advantages_K, clipped_K * advantages_K)


def gspo(inputs: LossInputs) -> Tensor:
    """PPO's clip on one ratio per sequence: s = exp(mean_t(logp - old)), over the tokens where the
    mask, if any, is 1.

    In the per-token form of the paper (GSPO-token), r_t = sg(s) exp(logp - sg(logp)): its value at
    each token is s, and its gradient flows through that token's own log-probability. Source: Zheng
    et al. 2025, arXiv:2507.18071, eq. 7 and 13-14.
    """
    logprobs_K, old_K, advantages_K = inputs.ratio_terms
    gap_K, mask_K = (logprobs_K - old_K).detach(), inputs.tensors.get(RATIO_MASK)
    mean_K = mean_by_sample(gap_K, inputs.sample_K, mask_K)[inputs.sample_K]
    ratio_K = torch.exp(mean_K + logprobs_K - logprobs_K.detach())
    return clipped_ratio(ratio_K, advantages_K, *inputs.bounds)


def cispo(inputs: LossInputs) -> Tensor:
    """-sg(clip(r, low, high)) A logp; clips the weight and keeps every token's gradient.

    Source: MiniMax-M1 2025, arXiv:2506.13585, eq. 4-5.
    """
    logprobs_K, old_K, advantages_K = inputs.ratio_terms
    weight_K = torch.exp(logprobs_K - old_K).clamp(*inputs.bounds).detach()
    return -weight_K * advantages_K * logprobs_K


def dro(inputs: LossInputs) -> Tensor:
    """-(A logp - beta/2 (logp - old)^2): off-policy without a ratio, held near the sampling policy
    by a square.

    Source: Richemond et al. 2024, arXiv:2405.19107; a token at a time, as Tinker defines its
    ``dro``.
    """
    logprobs_K, old_K, advantages_K = inputs.ratio_terms
    beta = inputs.settings["beta"]
    return -advantages_K * logprobs_K + 0.5 * beta * (logprobs_K - old_K).square()


def stable_reinforce(inputs: LossInputs) -> Tensor:
    """-sg(min(r, high)) A logp + kl_coeff/2 (logp - old)^2.

    The hosted service's formula is not published ("a REINFORCE that is stable off-policy"). This is
    REINFORCE with a truncated importance weight (Ionides 2008, "Truncated importance sampling"; the
    managed loop's: objective/engine_correction.py), and the k2 estimate of the KL to the sampling
    policy (Schulman 2020).
    """
    logprobs_K, old_K, advantages_K = inputs.ratio_terms
    weight_K = torch.exp(logprobs_K.detach() - old_K).clamp(max=inputs.settings[HIGH])
    gap_K = logprobs_K - old_K
    return (
        -weight_K * advantages_K * logprobs_K + 0.5 * inputs.settings["kl_coeff"] * gap_K.square()
    )


# Of every name of the table: the losses that are PPO's ratio and clip differ in their averages,
# which are the weights of tokens.
FORMULAS: dict[str, Callable[[LossInputs], Tensor]] = {
    **dict.fromkeys(("grpo", "dr_grpo", "dapo", "ppo"), ppo),
    "cross_entropy": cross_entropy,
    "importance_sampling": importance_sampling,
    "cispo": cispo,
    "dro": dro,
    "gspo": gspo,
    "stable_reinforce": stable_reinforce,
}


def loss_tokens(name: str, inputs: LossInputs) -> Tensor:
    """``loss_K`` of a client's loss. A token with a weight of 0 or an advantage of 0 can still have
    a KL term.
    """
    loss_K = FORMULAS[name](inputs)
    if WEIGHTS in inputs.tensors and WEIGHTS in LOSSES[name].optional:
        loss_K = loss_K * inputs.tensors[WEIGHTS]
    return loss_K


def dual_clipped(loss_K: Tensor, advantages_K: Tensor, cap: float) -> Tensor:
    """Dual clip: where A < 0, at most -cap A, so that no single token with a huge ratio rules the
    step.

    max(surrogate, cap A) for A < 0, with the surrogate -loss. Source: Ye et al. 2020,
    arXiv:1912.09729, eq. 5.
    """
    return torch.where(advantages_K < 0, torch.minimum(loss_K, -cap * advantages_K), loss_K)


def kl_k2(logprobs_K: Tensor, reference_K: Tensor) -> Tensor:
    """Schulman's k2: (logp - reference)^2 / 2. Biased in value; its gradient is that of KL(policy
    || reference).

    Source: Schulman 2020, "Approximating KL divergence"; the gradient: Tang and Munos 2025,
    arXiv:2506.09477.
    """
    return 0.5 * (logprobs_K - reference_K).square()


def kl_k3(logprobs_K: Tensor, reference_K: Tensor) -> Tensor:
    """Schulman's k3 estimate of KL(policy || reference): exp(d) - 1 - d, d = reference - logp.
    Never below 0.

    Source: Schulman 2020, "Approximating KL divergence". expm1, because exp(d) - 1 - d in fp32 is 0
    for |d| < 3e-4.
    """
    difference_K = reference_K - logprobs_K
    return torch.expm1(difference_K) - difference_K


def kl_estimate(name: str, logprobs_K: Tensor, reference_K: Tensor) -> Tensor:
    """The estimator ``name``. k1 (logp - reference) is none of them: as a loss its gradient is 0 on
    average.
    """
    return kl_k2(logprobs_K, reference_K) if name == "k2" else kl_k3(logprobs_K, reference_K)


def token_entropy(logits_KV: Tensor) -> Tensor:
    """H = -sum_v p(v) log p(v) of each position in nats, p = softmax(logits): logsumexp(z) - sum_v
    p(v) z(v).
    """
    return logits_KV.logsumexp(dim=1) - (logits_KV.softmax(dim=1) * logits_KV).sum(dim=1)


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
