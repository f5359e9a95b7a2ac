"""Compares the log-probabilities of engine and trainer on the tokens that the engine sampled.

They run the same weights through different kernels, so their log-probabilities differ by rounding and by nothing else.
A larger gap means that the engine serves other weights than the trainer has, or that one of its kernels is wrong: such
a step is refused. That the trainer computes this model as the model's own forward does was shown when it started
(``model_check.py``), so the gap is the engine's.
"""

from collections.abc import Mapping, Sequence

from gpu_runtime.interfaces import Sample

# Mean k3 KL, about half the mean squared difference of log-probabilities. On SmolLM2-135M the two differ by under 1e-4
# in float32 (a KL of 5e-9) and by 0.03 on average, 0.2 at most, in bfloat16 (1e-3).
BOUNDS = {"float32": 1e-6, "bfloat16": 1e-2}


class LogprobMismatchMonitor:
    """Says why a step must be refused, if its fresh tokens show a gap."""

    def __init__(self, dtype: str) -> None:
        self._bound = BOUNDS[dtype]

    def refusal(self, metrics: Mapping[str, float], samples: Sequence[Sample], staleness: int) -> str | None:
        """None where there is no gap, or no proof: stale tokens were sampled by other weights.

        Rounding of logits counts 1 / T times at a temperature T, and squared in a KL: the bound of a mean over tokens
        of several temperatures is the mean of theirs.
        """
        if staleness > 0 or metrics["tokens_trained"] == 0 or metrics["kl_engine"] <= self._bound:  # NaN goes on
            return None
        bound = self._bound * _mean_spread(samples)
        if metrics["kl_engine"] <= bound:
            return None
        return (
            f"engine and trainer differ by a KL of {metrics['kl_engine']:.2g} on tokens of the current weights, and"
            f" rounding explains {bound:g}; the engine is given the weights again"
        )


def _mean_spread(samples: Sequence[Sample]) -> float:
    """Mean of 1 / min(1, T)^2 over the tokens that ``kl_engine`` is the mean of: trained ones that nothing narrowed."""
    spreads = [
        1.0 / min(1.0, sample.temperature_at(position)) ** 2
        for sample in samples
        for position, trained in enumerate(sample.mask_T)
        if trained and position > 0 and not sample.narrowed_at(position)
    ]
    return sum(spreads) / len(spreads) if spreads else 1.0
