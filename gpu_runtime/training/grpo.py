"""Group-relative advantages. Pure mathematics on the rewards of one group; no torch.

Every trained token belongs to one call, the k-th (from 0, in the order in which they began) of one agent a in one
episode i. Its advantage compares what that call earned with what the call at its place earned in the other episodes:

    r(i, a, k) = rewards_by_call of that call, if episode i names it
                 else rewards_by_agent[a], if episode i names the agent
                 else reward of episode i
    A(i, a, k) = (r(i, a, k) - mean_j r(j, a, k)) / (std_j r(j, a, k) + 1e-6)      over the G episodes j of the group

All answers of one call (n > 1) share its advantage. An episode that has no k-th call of a stands in the comparison with
its agent's, else its own, reward. Where no episode names a call, r does not depend on k: every token of an agent has
the agent's advantage; where none names an agent either, every token of an episode has the episode's. Those are then
the same numbers, bit for bit, as if there were no calls.

Shape legend: G episodes of one group, C calls of one agent in one episode.
"""

import math
from collections.abc import Sequence

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


def call_advantages(
    rewards_G: Sequence[float], named_GC: Sequence[Sequence[float | None]], *, normalize: bool
) -> list[list[float]]:
    """``A[i][k]`` of one agent's calls: the formula above, with the agent fixed.

    ``rewards_G`` is the agent's reward in each episode. ``named_GC[i][k]`` is what episode i says of the agent's k-th
    call, or None where it says nothing; episodes may differ in the number of calls.
    """
    whole = group_advantages(rewards_G, normalize=normalize)
    advantages_GC = [[advantage] * len(named) for advantage, named in zip(whole, named_GC, strict=True)]
    for place in range(max(map(len, named_GC), default=0)):
        at_place_G = [named[place] if place < len(named) else None for named in named_GC]
        if all(reward is None for reward in at_place_G):
            continue
        earned = [own if named is None else named for own, named in zip(rewards_G, at_place_G, strict=True)]
        for advantages, advantage in zip(advantages_GC, group_advantages(earned, normalize=normalize), strict=True):
            if place < len(advantages):
                advantages[place] = advantage
    return advantages_GC
