"""The formulas of the losses of ``tinkerscript.wire.training.losses``, over the tensors and settings
that each takes. Values are sums, never means.

Names and conventions are those of the ``tinker`` client (0.38): ratio thresholds are absolute
bounds of the ratio r = exp(logprobs - logprobs at sampling), not distances from 1; nothing is
divided by lengths or counts.

Shapes: E targets of a row, in any order. ``logprobs_E`` are the model's and carry the gradient;
``datum_E`` is the index of the datum that a target belongs to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_runtime.training.losses import (
    clipped_ratio,
    clipped_weight,
    cross_entropy,
    direct_reward,
    importance_sampling,
    sequence_ratio,
    truncated_weight,
)
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


# Of every name of the table: the losses that are PPO's ratio and clip differ in their averages,
# which are the weights of tokens.
FORMULAS: dict[str, Callable[[LossInputs], Tensor]] = {
    **dict.fromkeys(("grpo", "dr_grpo", "dapo", "ppo"), _ppo),
    "cross_entropy": _cross_entropy,
    "importance_sampling": _importance_sampling,
    "cispo": _cispo,
    "dro": _dro,
    "gspo": _gspo,
    "stable_reinforce": _stable_reinforce,
}


def loss_tokens(name: str, inputs: LossInputs) -> Tensor:
    """``loss_E`` of a named loss. A token with a weight of 0 or an advantage of 0 can still have a
    KL term.
    """
    loss_E = FORMULAS[name](inputs)
    if WEIGHTS in inputs.tensors and WEIGHTS in LOSSES[name].optional:
        loss_E = loss_E * inputs.tensors[WEIGHTS]
    return loss_E
