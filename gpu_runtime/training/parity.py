"""The alarm for when engine and trainer no longer agree on the tokens that the engine sampled.

They run the same weights through different kernels, so their log-probabilities differ by rounding and by nothing else.
A larger gap means that the engine serves other weights than the trainer has, or that a kernel is wrong: training goes
on, since its ratios see the gap, but somebody must know.
"""

from tinkerscript.wire.events import StepMetrics

# Mean k3 KL, about half the mean squared difference of log-probabilities. On SmolLM2-135M the two differ by under 1e-4
# in float32 (a KL of 5e-9) and by 0.03 on average, 0.2 at most, in bfloat16 (1e-3).
BOUNDS = {"float32": 1e-6, "bfloat16": 1e-2}

HINT = "The engine may serve other weights than the trainer's. In bfloat16 a small model may need dtype float32."


class ParityAlarm:
    """Rings when the gap passes its bound, and again only after it was below it."""

    def __init__(self, dtype: str) -> None:
        self._bound = BOUNDS[dtype]
        self._rang = False

    def check(self, metrics: StepMetrics) -> dict[str, object] | None:
        """The event to report of this step, if any. Stale tokens were sampled by other weights and prove nothing."""
        if metrics.staleness_max > 0 or metrics.tokens_trained == 0:
            return None
        was, self._rang = self._rang, not metrics.kl_engine <= self._bound  # NaN rings too
        if was or not self._rang:
            return None
        return {
            "name": "engine_mismatch",
            "step": metrics.step,
            "kl_engine": metrics.kl_engine,
            "bound": self._bound,
            "hint": HINT,
        }
