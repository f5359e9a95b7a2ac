"""How far the trainer is from what was sampled, and how a loss corrects for the engine, whose
log-probabilities of a token are not quite the trainer's.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from ..base import Request

AGREES = 1e-4  # nats: of float32 on one machine, where nothing is to be corrected
Level = Literal["none", "token", "sequence", "geometric"]

# By name of a bound: the level that it belongs to.
LEVEL_OF = {
    "weight_low": "weight",
    "weight_high": "weight",
    "mask_low": "mask",
    "mask_high": "mask",
}


class EngineCorrection(Request):
    """Weights, masks and a veto by the ratio w = pi_trainer / pi_engine of sampled tokens.

    ``token``: of each token. ``sequence``: the product over the trained tokens of its timeline.
    ``geometric``: their geometric mean. Gaps up to 1e-4 nats count as none. Formulas:
    gpu_runtime/training/objective/engine_correction.py.
    """

    # Token and 2: verl and TRL. A weight of each token stays bounded however long an answer is.
    weight: Level = Field(
        "token",
        description="The ratio trainer / engine that a token's loss is multiplied by: its own, the "
        "product over its sequence, or their geometric mean.",
    )
    weight_low: float | None = Field(
        None, gt=0, le=1, description="A smaller weight is raised to this. None: no floor."
    )
    weight_high: float = Field(2.0, ge=1, le=100, description="A larger weight is cut to this.")
    # Token, an eighth and 8: prime-rl. Rounding in bfloat16 stays within a factor of 1.3.
    mask: Level = Field(
        "token",
        description="The ratio by which tokens are left out of the loss: their own, or that of "
        "their sequence.",
    )
    mask_low: float | None = Field(
        0.125, gt=0, le=1, description="A smaller ratio is left out. None: no bound."
    )
    mask_high: float | None = Field(
        8.0, ge=1, le=1e6, description="A larger ratio is left out. None: no bound."
    )
    # None: the mask leaves out the token itself. 1e-4: verl and slime.
    veto: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="A sequence with a token whose ratio is below this, or above 1 / this, is left "
        "out whole; 1e-4 is usual. None: none is.",
    )

    @field_validator(*LEVEL_OF)
    @classmethod
    def _has_an_effect(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        level = LEVEL_OF[name]
        if value != cls.model_fields[name].default and info.data.get(level) == "none":
            raise ValueError(f"has an effect only with a {level} that is not none")
        return value

    @field_validator("mask_high")
    @classmethod
    def _mask_has_a_bound(cls, value: float | None, info: ValidationInfo) -> float | None:
        has_low = info.data.get("mask_low", 0.0) is not None
        if value is None and not has_low and info.data.get("mask", "none") != "none":
            raise ValueError(
                "a mask without mask_low and mask_high leaves nothing out: give one of them, or "
                "mask none"
            )
        return value


# Edges between ratios of trained tokens: exp(trainer's log-probability before the step - that it was
# sampled with) is 1 where engine and trainer agree and the weights are those that sampled it.
# Between the inner two there is no more than the rounding of float32.
RATIO_EDGES = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0001, 1.001, 1.01, 1.05, 1.1, 1.25, 2.0)
FARTHEST = 20.0  # nats that a token counts in a KL: exp of more has no place in a mean
_LOGARITHMS = tuple(map(math.log, RATIO_EDGES))


def ratios_count(differences: Iterable[float]) -> list[int] | None:
    """Of differences of log-probabilities, trainer - sampled: how many ratios are below the first
    edge, between the first and the second, ..., at or above the last. None of none.
    """
    counts = [0] * (len(RATIO_EDGES) + 1)
    for difference in filter(math.isfinite, differences):
        counts[bisect_right(_LOGARITHMS, difference)] += 1
    return counts if any(counts) else None
