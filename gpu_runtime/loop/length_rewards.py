"""What the lengths of a group's attempts add to their rewards (``length_penalty``). No torch."""

import statistics
from collections.abc import Sequence


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
