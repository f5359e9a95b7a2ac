"""Group-relative advantages, and what lengths add to rewards. Pure mathematics on the rewards of
one group; no torch.

Every trained token belongs to one call, the k-th (from 0, in the order in which they began) of one
agent a in one episode i.

    r(i, a) = rewards_by_agent[a], if episode i names the agent, else the reward of episode i
    c(i, a, k) = what rewards_by_call of episode i says of that call, if it names it; with a ``call_discount`` d its
                 return c(i, a, k) + d c(i, a, k+1) + d^2 c(i, a, k+2) + ..., of every call up to the last named one

    A(i, a, k) = (r(i, a) - mean_j r(j, a)) / (std_j r(j, a) + 1e-6)        of a call that is not named, over all j
    A(i, a, k) = (c(i, a, k) - mean of the others in P) / (std P + 1e-6)    of a named one, over the pool P

P holds the rewards c(j, a, k) of the calls with the same index that exist and are named; a call
alone at its index is compared with all named calls of the agent in the group, and one that is alone
in the group keeps its episode's advantage. The reward of a whole episode never stands in for a
call's: they have other scales, and loops have other lengths. A call's own reward is not in its
baseline (leave-one-out), which would shrink the advantage of small pools.

    rewards_by_call  0.9 0.9 0.9 | 0.3 0.3      without the division  +0.6 +0.6 +0.3 | -0.6 -0.6

(+0.3: the third call is alone at its index, and the four others of the agent have the mean 0.6.)

All answers of one call (n > 1) share its advantage.

Shape legend: G episodes of one group, C calls of one agent in one episode.
"""

import math
import statistics
from collections.abc import Sequence

EPSILON = 1e-6
# Rewards closer than this are equal: rounding of a sum or of a judge's float32 must not be blown up
# to a whole standard deviation.
RELATIVE, ABSOLUTE = 1e-6, 1e-8


def is_level(rewards_G: Sequence[float]) -> bool:
    """Whether all are equal to rounding: nothing can be learned from their differences."""
    return not rewards_G or math.isclose(
        max(rewards_G), min(rewards_G), rel_tol=RELATIVE, abs_tol=ABSOLUTE
    )


def group_advantages(
    rewards_G: Sequence[float], *, normalize: bool, leave_one_out: bool = False
) -> list[float]:
    """A_i = (r_i - mean(r)) / (std(r) + 1e-6), with the standard deviation over the G episodes
    (divisor G).

    Source: Shao et al. 2024, "DeepSeekMath", section 4.1. ``normalize=False`` leaves out the
    division, as in Liu et al. 2025, "Understanding R1-Zero-Like Training" (Dr. GRPO), which shows
    that it weighs easy and hard groups unequally. ``leave_one_out`` subtracts the mean of the
    others instead, which makes A_i larger by G / (G - 1): Ahmadian et al. 2024, arXiv:2402.14740
    (RLOO), eq. 8. A level group, a group of one included, carries no signal: exact zeros.
    """
    if is_level(rewards_G):
        return [0.0] * len(rewards_G)
    mean = math.fsum(rewards_G) / len(rewards_G)
    centred = [reward - mean for reward in rewards_G]
    std = math.sqrt(math.fsum(value * value for value in centred) / len(centred))
    if leave_one_out:
        centred = [value * len(centred) / (len(centred) - 1) for value in centred]
    return [value / (std + EPSILON) for value in centred] if normalize else centred


def returns_to_go(rewards_C: Sequence[float | None], discount: float) -> list[float | None]:
    """G_k = c_k + discount G_(k+1), of every call up to the last that is named; None after it, and
    for an unnamed call where ``discount`` is 0. Source: Sutton and Barto 2018, "Reinforcement
    Learning", eq. 3.9.
    """
    if discount == 0.0:
        return list(rewards_C)
    returns: list[float | None] = [None] * len(rewards_C)
    later: float | None = None
    for k in range(len(rewards_C) - 1, -1, -1):
        own = rewards_C[k]
        if own is not None or later is not None:
            later = returns[k] = (own or 0.0) + discount * (later or 0.0)
    return returns


def overlong_penalty(length: int, longest: int, buffer: int) -> float:
    """Added to the reward of an answer of ``length`` tokens: 0 up to ``longest`` - ``buffer``, then
    in a line to -1.

    (longest - buffer - length) / buffer, not below -1. Source: Yu et al. 2025, "DAPO",
    arXiv:2503.14476, eq. 13.
    """
    return max(-1.0, min(0.0, (longest - buffer - length) / buffer)) if buffer else 0.0


def successes(rewards_G: Sequence[float], said_G: Sequence[bool | None]) -> list[bool]:
    """Whether each attempt succeeded: what its output says, else a reward above the mean."""
    mean = statistics.fmean(rewards_G)
    return [
        reward > mean if said is None else said
        for reward, said in zip(rewards_G, said_G, strict=True)
    ]


def length_terms(lengths_G: Sequence[int], succeeded_G: Sequence[bool]) -> list[float]:
    """What the length of each attempt adds to its reward: 1/2 of the shortest in a line to -1/2 of
    the longest, and at most 0 of one that did not succeed.

    1/2 - (n - shortest) / (longest - shortest). Source: Kimi Team 2025, "Kimi k1.5",
    arXiv:2501.12599, section 2.3.3. All are 0 where lengths are equal, and, other than there, where
    no attempt succeeded: a short failure is no better.
    """
    shortest, longest = min(lengths_G), max(lengths_G)
    if shortest == longest or not any(succeeded_G):
        return [0.0] * len(lengths_G)
    terms = [0.5 - (length - shortest) / (longest - shortest) for length in lengths_G]
    return [
        term if succeeded else min(0.0, term)
        for term, succeeded in zip(terms, succeeded_G, strict=True)
    ]


def most_spread(rewards_G: Sequence[float], keep: int) -> list[int]:
    """The places of the ``keep`` rewards with the greatest variance, in order: the k highest and
    the ``keep`` - k lowest, for the k that spreads them most.

    Source: Xu et al. 2025, "Not All Rollouts are Useful", arXiv:2504.13818, theorem 1.
    """
    if len(rewards_G) <= keep:
        return list(range(len(rewards_G)))
    order = sorted(range(len(rewards_G)), key=lambda place: (rewards_G[place], place))
    # halves first: of equal spreads the even one is taken
    splits = sorted(range(keep + 1), key=lambda high: (abs(2 * high - keep), high))
    chosen = [order[: keep - high] + order[len(order) - high :] for high in splits]
    best = max(chosen, key=lambda places: statistics.pvariance([rewards_G[at] for at in places]))
    return sorted(best)


def call_advantages(
    rewards_G: Sequence[float],
    call_rewards_GC: Sequence[Sequence[float | None]],
    *,
    normalize: bool,
    leave_one_out: bool = False,
) -> list[list[float]]:
    """``A[i][k]`` of one agent's calls: the formula above, with the agent fixed.

    ``rewards_G`` is the agent's reward in each episode. ``call_rewards_GC[i][k]`` is the reward (or
    return) that episode i gives the agent's k-th call, or None; episodes may differ in the number
    of calls. ``leave_one_out`` is about whole episodes: a named call's baseline leaves out its own
    reward anyway.
    """
    whole = group_advantages(rewards_G, normalize=normalize, leave_one_out=leave_one_out)
    advantages_GC = [
        [advantage] * len(of_calls)
        for advantage, of_calls in zip(whole, call_rewards_GC, strict=True)
    ]
    # index of a call: its reward in each episode that names it
    named: dict[int, dict[int, float]] = {}
    for i, of_calls in enumerate(call_rewards_GC):
        for k, reward in enumerate(of_calls):
            if reward is not None:
                named.setdefault(k, {})[i] = reward
    all_places = [(i, k) for k, of_episodes in named.items() for i in of_episodes]
    of_all = group_advantages(
        [named[k][i] for i, k in all_places], normalize=normalize, leave_one_out=True
    )
    among_all = dict(zip(all_places, of_all, strict=True))
    for k, of_episodes in named.items():
        if len(of_episodes) > 1:
            compared = group_advantages(
                list(of_episodes.values()), normalize=normalize, leave_one_out=True
            )
        elif len(among_all) > 1:
            compared = [among_all[i, k] for i in of_episodes]
        else:
            continue
        for i, advantage in zip(of_episodes, compared, strict=True):
            advantages_GC[i][k] = advantage
    return advantages_GC
