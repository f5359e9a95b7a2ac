"""Refuses a step whose engine and trainer differ as wrong weights make them differ.

They run the same weights through different kernels, so their log-probabilities differ by rounding.
A single token that is far off is left out of the loss (``engine_correction``) and counted; it
refuses nothing. Where the usual token is off, the engine serves other weights than the trainer has,
or one of its kernels is wrong. That the trainer computes this model as the model's own forward does
was shown when it started (``model_check.py``), so the gap is the engine's.
"""

from .engine_gaps import EngineGaps

# Mean k3 KL, about half the mean squared difference of log-probabilities. On SmolLM2-135M the two
# differ by under 1e-4 in float32 (a KL of 5e-9) and by 0.03 on average, 0.2 at most, in bfloat16
# (1e-3).
BOUNDS = {"float32": 1e-6, "bfloat16": 1e-2}


def mismatch_refusal(kl_engine: float, gaps: EngineGaps, dtype: str, staleness: int) -> str | None:
    """Why a step must be refused; None where there is no gap, or no proof: stale tokens were
    sampled by other weights.

    ``kl_engine`` is the mean KL of all tokens. The bound of a mean over tokens of several
    temperatures is the mean of theirs.
    """
    bound = BOUNDS[dtype] * gaps.spread
    if staleness > 0 or not min(kl_engine, gaps.usual_kl) > bound:  # NaN goes on
        return None
    return (
        f"engine and trainer differ by a KL of {kl_engine:.2g} on tokens of the current weights, of"
        f" {gaps.usual_kl:.2g} without the farthest of them, and rounding explains {bound:g}; the "
        "engine is given the"
        " weights again"
    )
