"""The policy losses, each named once: what an option of a session, and a ``tinker`` client, may say
beside it. Their formulas: ``gpu_runtime/training/losses.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# The option ``loss``: every name below that has an ``average``.
LossName = Literal[
    "grpo", "dr_grpo", "dapo", "gspo", "cispo", "ppo", "importance_sampling", "dro", "cross_entropy"
]  # fmt: skip
# Tensors of a datum and numbers of ``loss_fn_config``, by their names on the wire of ``tinker``.
TARGETS, OLD, ADVANTAGES, WEIGHTS = "target_tokens", "logprobs", "advantages", "weights"
RATIO_MASK, LOW, HIGH = "sequence_ratio_mask", "clip_low_threshold", "clip_high_threshold"


@dataclass(frozen=True)
class Loss:
    """A row of the table. An option or a setting that it does not have is refused beside it."""

    # of a step of the managed loop (gpu_runtime/loop/data.py): mean over an episode's tokens,
    # then over episodes; sum over episodes * max_tokens; mean over all tokens. None: for clients
    # alone
    average: Literal["episodes", "constant", "tokens"] | None = None
    # (clip_low, clip_high) of a session that gives none; None instead of the first: no floor
    clip: tuple[float | None, float] | None = None
    is_surrogate: bool = False  # min of a ratio and its clip, which dual_clip bounds
    settings: Mapping[str, float] | None = None  # a client's, with defaults. None: no client's loss
    required: tuple[str, ...] = (OLD, ADVANTAGES)  # tensors beside target_tokens
    optional: tuple[str, ...] = (WEIGHTS,)
    many_targets: bool = False  # whether target_tokens may be [N, K]
    approximates: bool = False  # a formula that is not published

    @property
    def has_ratio(self) -> bool:
        """Whether the policy that sampled takes part, which ``engine_correction`` corrects."""
        return OLD in self.required


# Clips: Schulman et al. 2017, arXiv:1707.06347, table 3; dr_grpo: arXiv:2503.20783; dapo:
# arXiv:2503.14476, section 4.1; gspo, whose ratio is a mean over the sequence: arXiv:2507.18071,
# section 5.1; cispo: no floor, MiniMax-M1, arXiv:2506.13585, section 3.1, and a weight of at most
# 5, arXiv:2510.13786.
LOSSES: dict[str, Loss] = {
    "grpo": Loss("episodes", (0.2, 0.2), is_surrogate=True),
    "dr_grpo": Loss("constant", (0.2, 0.2), is_surrogate=True),
    "dapo": Loss("tokens", (0.2, 0.28), is_surrogate=True),
    "cross_entropy": Loss(
        "tokens", settings={}, required=(WEIGHTS,), optional=(), many_targets=True
    ),
    "importance_sampling": Loss("episodes", settings={}),
    "ppo": Loss("tokens", (0.2, 0.2), is_surrogate=True, settings={LOW: 0.8, HIGH: 1.2}),
    "cispo": Loss("tokens", (None, 4.0), settings={LOW: 0.0, HIGH: 4.0}),
    "dro": Loss("episodes", settings={"beta": 0.05}),
    "gspo": Loss(
        "episodes",
        (3e-4, 4e-4),
        is_surrogate=True,
        settings={LOW: 1 - 3e-4, HIGH: 1 + 4e-4},
        optional=(RATIO_MASK, WEIGHTS),
    ),
    "stable_reinforce": Loss(settings={HIGH: 4.0, "kl_coeff": 0.0}, approximates=True),
}
CLIENT_LOSSES = {name: loss for name, loss in LOSSES.items() if loss.settings is not None}
# Of the option ``loss``.
CLIPPED_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.clip)
SURROGATE_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.is_surrogate)
RATIO_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.has_ratio and loss.average)


def clip_of(loss: str, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """(clip_low, clip_high) of a session that gave ``low`` and ``high``; None: no floor, or no
    clip.
    """
    own_low, own_high = LOSSES[loss].clip or (None, None)
    return own_low if low is None else low, own_high if high is None else high


def clip_bounds(loss: str, low: float | None, high: float | None) -> tuple[float, float]:
    """(lowest, highest) ratio of a ``loss`` with a clip: 1 - clip_low, which is 0 without a floor,
    and 1 + clip_high.
    """
    low, high = clip_of(loss, low, high)
    assert high is not None, "a loss with a clip"
    return 0.0 if low is None else 1 - low, 1 + high
