"""The losses that a caller names, by the tensors and settings that each takes. Values are sums,
never means.

Names and conventions are those of the ``tinker`` client (0.38): ratio thresholds are absolute
bounds of the ratio r = exp(logprobs - logprobs at sampling), not distances from 1; nothing is
divided by lengths or counts.

Shapes: E targets of a row, in any order. ``logprobs_E`` are the model's and carry the gradient;
``datum_E`` is the index of the datum that a target belongs to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gpu_runtime.model_interfaces import ADVANTAGES, OLD, WEIGHTS
from gpu_runtime.training.losses import (
    clipped_ratio,
    clipped_weight,
    cross_entropy,
    direct_reward,
    importance_sampling,
    sequence_ratio,
    truncated_weight,
)

LOW, HIGH = "clip_low_threshold", "clip_high_threshold"
RATIO_MASK = "sequence_ratio_mask"


@dataclass(frozen=True)
class LossInputs:
    """What a loss is computed from: the tensors by their names on the wire, and every setting."""

    logprobs_E: Tensor
    tensors: Mapping[str, Tensor]
    datum_E: Tensor
    settings: Mapping[str, float]

    @property
    def ratio_terms(self) -> tuple[Tensor, Tensor, Tensor]:
        """``logprobs_E``, those at sampling, advantages."""
        return self.logprobs_E, self.tensors[OLD], self.tensors[ADVANTAGES]

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest ratio."""
        return self.settings[LOW], self.settings[HIGH]


@dataclass(frozen=True)
class NamedLoss:
    """``required`` and ``optional`` name tensors beside ``target_tokens``, ``settings`` what may be
    set, with defaults.

    ``compute`` returns ``loss_E``. ``approximates`` marks a name whose formula is not published.
    """

    compute: Callable[[LossInputs], Tensor]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    settings: Mapping[str, float] = field(default_factory=dict)
    many_targets: bool = False  # whether target_tokens may be [N, K]
    approximates: bool = False


def _cross_entropy(inputs: LossInputs) -> Tensor:
    """-w logp; w of any sign and size: a client's own loss arrives as w = -d loss / d logp."""
    return cross_entropy(inputs.logprobs_E, inputs.tensors[WEIGHTS])


def _importance_sampling(inputs: LossInputs) -> Tensor:
    """-r A."""
    return importance_sampling(*inputs.ratio_terms)


def _ppo(inputs: LossInputs) -> Tensor:
    """-min(r A, clip(r, low, high) A)."""
    logprobs_E, old_E, advantages_E = inputs.ratio_terms
    return clipped_ratio(torch.exp(logprobs_E - old_E), advantages_E, *inputs.bounds)


def _cispo(inputs: LossInputs) -> Tensor:
    """-sg(clip(r, low, high)) A logp."""
    return clipped_weight(*inputs.ratio_terms, *inputs.bounds)


def _dro(inputs: LossInputs) -> Tensor:
    """-(A logp - beta/2 (logp - old)^2)."""
    return direct_reward(*inputs.ratio_terms, inputs.settings["beta"])


def _gspo(inputs: LossInputs) -> Tensor:
    """PPO's clip on r_t = sg(s) exp(logp - sg(logp)), s = exp(mean over a datum's mask, if any, of
    (logp - old)).
    """
    logprobs_E, old_E, advantages_E = inputs.ratio_terms
    ratio_E = sequence_ratio(logprobs_E, old_E, inputs.datum_E, inputs.tensors.get(RATIO_MASK))
    return clipped_ratio(ratio_E, advantages_E, *inputs.bounds)


def _stable_reinforce(inputs: LossInputs) -> Tensor:
    """-sg(min(r, high)) A logp + kl_coeff/2 (logp - old)^2.

    The hosted service's formula is not published ("a REINFORCE that is stable off-policy"). This is
    REINFORCE with a truncated importance weight (Ionides 2008), and the k2 estimate of the KL to
    the sampling policy (Schulman 2020).
    """
    logprobs_E, old_E, advantages_E = inputs.ratio_terms
    weight_E = truncated_weight(logprobs_E, old_E, inputs.settings[HIGH])
    gap_E = logprobs_E - old_E
    return (
        -weight_E * advantages_E * logprobs_E + 0.5 * inputs.settings["kl_coeff"] * gap_E.square()
    )


_RATIO = (OLD, ADVANTAGES)
LOSSES = {
    "cross_entropy": NamedLoss(_cross_entropy, (WEIGHTS,), many_targets=True),
    "importance_sampling": NamedLoss(_importance_sampling, _RATIO, (WEIGHTS,)),
    "ppo": NamedLoss(_ppo, _RATIO, (WEIGHTS,), {LOW: 0.8, HIGH: 1.2}),
    "cispo": NamedLoss(_cispo, _RATIO, (WEIGHTS,), {LOW: 0.0, HIGH: 4.0}),
    "dro": NamedLoss(_dro, _RATIO, (WEIGHTS,), {"beta": 0.05}),
    # The paper's clip, arXiv:2507.18071, section 5.1: 3e-4 below 1 and 4e-4 above.
    "gspo": NamedLoss(_gspo, _RATIO, (RATIO_MASK, WEIGHTS), {LOW: 1 - 3e-4, HIGH: 1 + 4e-4}),
    "stable_reinforce": NamedLoss(
        _stable_reinforce, _RATIO, (WEIGHTS,), {HIGH: 4.0, "kl_coeff": 0.0}, approximates=True
    ),
}


def loss_tokens(name: str, inputs: LossInputs) -> Tensor:
    """``loss_E`` of a named loss. A token with a weight of 0 or an advantage of 0 can still have a
    KL term.
    """
    loss_E = LOSSES[name].compute(inputs)
    if name != "cross_entropy" and WEIGHTS in inputs.tensors:
        loss_E = loss_E * inputs.tensors[WEIGHTS]
    return loss_E
