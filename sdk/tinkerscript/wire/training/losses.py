"""The policy losses by name: which options each uses, and what an option that is not given means
for it.
"""

from typing import Literal

LossName = Literal[
    "grpo", "dr_grpo", "dapo", "gspo", "cispo", "ppo", "importance_sampling", "dro", "cross_entropy"
]  # fmt: skip

# Which options a loss uses. The others must keep their defaults beside it: no option is accepted
# that does nothing.
CLIPPED_LOSSES = ("grpo", "dr_grpo", "dapo", "ppo", "gspo", "cispo")
# min of a ratio and its clip, which dual_clip bounds
SURROGATE_LOSSES = ("grpo", "dr_grpo", "dapo", "ppo", "gspo")
RATIO_LOSSES = (*CLIPPED_LOSSES, "importance_sampling", "dro")  # what engine_correction corrects

# (clip_low, clip_high) where a session does not give them.
CLIP_DEFAULTS = {
    "grpo": (0.2, 0.2),  # Schulman et al. 2017, arXiv:1707.06347, table 3
    "ppo": (0.2, 0.2),
    "dr_grpo": (0.2, 0.2),  # Liu et al. 2025, arXiv:2503.20783
    "dapo": (0.2, 0.28),  # Yu et al. 2025, arXiv:2503.14476, section 4.1
    # Zheng et al. 2025, arXiv:2507.18071, section 5.1: the ratio is a mean over the sequence
    "gspo": (3e-4, 4e-4),
    # No floor: MiniMax-M1, arXiv:2506.13585, section 3.1. A weight of at most 5: Khatri et al.
    # 2025, arXiv:2510.13786.
    "cispo": (None, 4.0),
}


def clip_bounds(loss: str, low: float | None, high: float | None) -> tuple[float, float]:
    """(lowest, highest) ratio of ``loss``: 1 - clip_low, which is 0 without a floor, and 1 +
    clip_high.
    """
    own_low, own_high = CLIP_DEFAULTS[loss]
    low, high = own_low if low is None else low, own_high if high is None else high
    return 0.0 if low is None else 1 - low, 1 + high
