"""What is added to a policy loss: distance to a reference, and entropy. Shapes: ``losses.py``; V
the vocabulary.
"""

import torch
from torch import Tensor


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
