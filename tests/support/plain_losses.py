"""The formula of each loss for one token, written out once more in plain Python. Tests of numbers,
of gradients and of the trainer compare with it; the runtime's own formulas are not used.

From the table of losses it takes names and default clips alone.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import HIGH, LOSSES, LOW

SESSION_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.average)
# Of a loss that has options of its own, values other than the defaults.
OWN_OPTIONS: dict[str, dict[str, float]] = {"dro": {"dro_beta": 0.3}}


@dataclass(frozen=True)
class Token:
    """What a formula is computed from. ``x`` is the policy's log-probability, a number or a scalar
    tensor, and ``fixed`` its value where it carries no gradient.
    """

    x: Any
    fixed: float
    old: float  # log-probability under the policy that the ratio is taken against
    advantage: float  # of a loss without a ratio: the weight
    settings: Mapping[str, float]  # by their names on the wire of ``tinker``
    gap: float = 0.0  # mean of fixed - old over the token's sequence


def settings_of(config: SessionConfig) -> dict[str, float]:
    """What the options of a session say, as settings of a client."""
    settings = {"beta": config.dro_beta} if config.loss == "dro" else {}
    if clip := LOSSES[config.loss].clip:
        low = clip[0] if config.clip_low is None else config.clip_low
        high = clip[1] if config.clip_high is None else config.clip_high
        settings |= {LOW: 0.0 if low is None else 1 - low, HIGH: 1 + high}
    return settings


def plain_token(name: str, token: Token) -> Any:
    """The loss ``name`` of ``token``."""
    assert name in FORMULAS, f"write the formula of {name} in tests/support/plain_losses.py"
    return FORMULAS[name](token)


def ppo(token: Token) -> Any:
    return _surrogate(_exp(token.x - token.old), token)


def gspo(token: Token) -> Any:
    return _surrogate(_exp(token.gap + token.x - token.fixed), token)


def cispo(token: Token) -> Any:
    weight = min(max(math.exp(token.fixed - token.old), token.settings[LOW]), token.settings[HIGH])
    return -weight * token.advantage * token.x


def importance_sampling(token: Token) -> Any:
    return -_exp(token.x - token.old) * token.advantage


def dro(token: Token) -> Any:
    square = (token.x - token.old) ** 2
    return -(token.x * token.advantage - token.settings["beta"] / 2 * square)


def stable_reinforce(token: Token) -> Any:
    weight = min(math.exp(token.fixed - token.old), token.settings[HIGH])
    square = (token.x - token.old) ** 2
    return -weight * token.advantage * token.x + token.settings["kl_coeff"] / 2 * square


def cross_entropy(token: Token) -> Any:
    return -token.x * token.advantage


FORMULAS: dict[str, Callable[[Token], Any]] = {
    **dict.fromkeys(("grpo", "dr_grpo", "dapo", "ppo"), ppo),
    "gspo": gspo,
    "cispo": cispo,
    "importance_sampling": importance_sampling,
    "dro": dro,
    "stable_reinforce": stable_reinforce,
    "cross_entropy": cross_entropy,
}


def _surrogate(ratio: Any, token: Token) -> Any:
    low, high = token.settings[LOW], token.settings[HIGH]
    clipped = low if ratio < low else high if ratio > high else ratio
    return -min(ratio * token.advantage, clipped * token.advantage)


def _maths_of(x: Any) -> Any:
    return torch if isinstance(x, torch.Tensor) else math


def _exp(x: Any) -> Any:
    return _maths_of(x).exp(x)
