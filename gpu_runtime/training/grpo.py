"""Group-relative advantages. Pure mathematics on the rewards of one group; no torch.

Shape legend: G episodes of one group.
"""

import math
from collections.abc import Mapping, Sequence

EPSILON = 1e-6


def group_advantages(rewards_G: Sequence[float], *, normalize: bool) -> list[float]:
    """A_i = (r_i - mean(r)) / (std(r) + 1e-6), with the standard deviation over the G episodes (divisor G).

    Source: Shao et al. 2024, "DeepSeekMath", section 4.1. ``normalize=False`` leaves out the division, as in Liu et al.
    2025, "Understanding R1-Zero-Like Training" (Dr. GRPO), which shows that it weighs easy and hard groups unequally.
    A group whose rewards are all equal, a group of one included, says nothing about what to prefer: exact zeros.
    """
    if not rewards_G or max(rewards_G) == min(rewards_G):
        return [0.0] * len(rewards_G)
    mean = math.fsum(rewards_G) / len(rewards_G)
    centred = [reward - mean for reward in rewards_G]
    if not normalize:
        return centred
    std = math.sqrt(math.fsum(value * value for value in centred) / len(centred))
    return [value / (std + EPSILON) for value in centred]


def agent_advantages(
    rewards_G: Sequence[float],
    by_agent_G: Sequence[Mapping[str, float] | None],
    agents: Sequence[str],
    *,
    normalize: bool,
) -> dict[str | None, list[float]]:
    """Advantages per agent: each agent is compared with itself in the other episodes of the group.

    ``rewards_G`` is the episodes' own reward: that of unlabelled calls (agent None), and of an agent that an episode's
    ``rewards_by_agent`` does not name. Without any ``rewards_by_agent`` all agents of an episode share its advantage.
    """
    advantages: dict[str | None, list[float]] = {None: group_advantages(rewards_G, normalize=normalize)}
    for agent in agents:
        rewards = [(named or {}).get(agent, reward) for named, reward in zip(by_agent_G, rewards_G, strict=True)]
        advantages[agent] = group_advantages(rewards, normalize=normalize)
    return advantages
