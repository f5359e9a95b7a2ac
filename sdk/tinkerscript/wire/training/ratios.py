"""How far the trainer was from what was sampled: ratios of trained tokens, counted between fixed
edges.

The ratio of a token is exp(trainer's log-probability before the step - log-probability it was
sampled with): 1 where engine and trainer agree and the weights are those that sampled it.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable

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
