"""How far engine and trainer are apart on the tokens of a step: its metrics, and the refusal of a
step whose engine and trainer differ as wrong weights make them differ; and how often they may
before the session ends.

They run the same weights through different kernels, so their log-probabilities differ by rounding.
A single token that is far off is left out of the loss (``engine_correction``) and counted; it
refuses nothing. Where the usual token is off, the engine serves other weights than the trainer has,
or one of its kernels is wrong. That the trainer computes this model as the model's own forward does
was shown when it started (``model_check.py``), so the gap is the engine's.

Shapes: K trained tokens that no grammar narrowed (a gap there can be the grammar's). No torch in
here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_runtime.errors import EngineMismatch, EngineTrainerMismatch
from gpu_runtime.loop.batching import Batch
from gpu_runtime.loop.sample import Sample
from tinkerscript.wire.training.engine_correction import FARTHEST

# Mean k3 KL, about half the mean squared difference of log-probabilities. On SmolLM2-135M the two
# differ by under 1e-4 in float32 (a KL of 5e-9) and by 0.03 on average, 0.2 at most, in bfloat16
# (1e-3).
BOUNDS = {"float32": 1e-6, "bfloat16": 1e-2}
# of the tokens, at least one: what single tokens are off by proves nothing about the weights
OUTLIERS = 0.02
FAR = 1.0  # nats: rounding never does it to more than a token here and there
QUARTERS = 4  # of the trained tokens of a sample
# of a token when it was sampled: below the first, between them, above the last
PROBABILITIES = (0.01, 0.1, 0.5)


@dataclass(frozen=True)
class EngineGaps:
    """``gap_K`` = trainer - engine in nats, before the step. ``engine_K`` are the engine's
    log-probabilities.

    ``place_K`` is the part of the sample's trained tokens that lies before a token, 0 to 1.
    ``spread_K`` is 1 / min(1, T)^2: rounding of logits counts 1 / T times at a temperature T, and
    squared in a KL.
    """

    gap_K: np.ndarray
    engine_K: np.ndarray
    place_K: np.ndarray
    spread_K: np.ndarray

    @classmethod
    def of(cls, samples: Sequence[Sample], trainer_ST: Sequence[Sequence[float]]) -> "EngineGaps":
        """Those of ``samples``, whose log-probabilities before the step the trainer computed as
        ``trainer_ST``.
        """
        rows = [row for each in zip(samples, trainer_ST, strict=True) for row in _tokens(*each)]
        columns = np.array(rows, dtype=np.float64).reshape(-1, 4).T
        with np.errstate(invalid="ignore"):  # of infinite ones, which refuse the step
            return cls(columns[1] - columns[0], columns[0], columns[2], columns[3])

    @property
    def kl_K(self) -> np.ndarray:
        """k3 estimate of KL(engine || trainer) of each token: exp(d) - 1 - d (Schulman 2020), d
        within FARTHEST.
        """
        gap_K = np.clip(self.gap_K, -FARTHEST, FARTHEST)
        return np.expm1(gap_K) - gap_K

    @property
    def kl(self) -> float:
        """Mean over all tokens; 0 of none."""
        return float(self.kl_K.mean()) if len(self.gap_K) else 0.0

    @property
    def usual_kl(self) -> float:
        """Mean without the OUTLIERS that are farthest apart. Wrong weights move most tokens."""
        kept_K = np.sort(self.kl_K)[
            : len(self.gap_K) - max(1, int(np.ceil(OUTLIERS * len(self.gap_K))))
        ]
        return float(kept_K.mean()) if len(kept_K) else 0.0

    @property
    def spread(self) -> float:
        """Mean of ``spread_K``; 1 of no token."""
        return float(self.spread_K.mean()) if len(self.spread_K) else 1.0

    def metrics(self) -> dict[str, Any]:
        """The part of StepMetrics about |gap|, in nats; empty without a token."""
        if not len(self.gap_K):
            return {}
        apart_K = np.abs(self.gap_K)
        quarter_K = np.minimum((self.place_K * QUARTERS).astype(int), QUARTERS - 1)
        likely_K = np.digitize(np.exp(self.engine_K), PROBABILITIES)
        p50, p90, p99 = (float(value) for value in np.quantile(apart_K, (0.5, 0.9, 0.99)))
        return {
            "engine_gap_mean": float(apart_K.mean()),
            "engine_gap_p50": p50,
            "engine_gap_p90": p90,
            "engine_gap_p99": p99,
            "engine_gap_max": float(apart_K.max()),
            "engine_gap_far": float((apart_K > FAR).mean()),
            "engine_gap_by_position": _means(apart_K, quarter_K, QUARTERS),
            "engine_gap_by_probability": _means(apart_K, likely_K, len(PROBABILITIES) + 1),
        }


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


class MismatchCount:
    """A mismatch is answered by handing the weights over again. One on tokens sampled after that is
    final.

    Tokens that were sampled before it prove nothing about it: a batch with some of them is refused
    and not counted. So do steps on tokens of older weights, which cannot show a gap: a mismatch
    before them stays on record until a batch of current weights shows none. Two such batches in a
    row that show one are two proofs, whatever lies between.
    """

    def __init__(self) -> None:
        # Unix time in seconds; None while the last proof held
        self._handed_over_at: float | None = None

    def needs_weights(self, batch: Batch, refusal: EngineMismatch) -> bool:
        """Whether the engine is to be given the weights again. Raises EngineTrainerMismatch where
        that did not help.
        """
        if self._handed_over_at is None:
            return True
        if (
            min(call.begun_at for episode in batch.episodes for call in episode.calls)
            > self._handed_over_at
        ):
            raise EngineTrainerMismatch(
                f"step {batch.step}: engine and trainer differ by a KL of {refusal.kl:.2g}, on "
                "tokens sampled after the"
                " engine was given the weights again; one of its kernels is wrong for this model, "
                "or keeps old weights"
            )
        return False

    def handed_over(self, at: float) -> None:
        """The engine was given the weights again for a mismatch, at this Unix time."""
        self._handed_over_at = at

    def agreed(self) -> None:
        """A step was done whose tokens proved that both have the same weights."""
        self._handed_over_at = None


def _tokens(sample: Sample, trainer_T: Sequence[float]) -> list[tuple[float, float, float, float]]:
    """(engine, trainer, place, spread) of each trained token that no grammar narrowed."""
    trained = [t for t, mask in enumerate(sample.mask_T) if mask and t > 0]
    return [
        (
            sample.logprobs_T[t],
            trainer_T[t],
            k / len(trained),
            1.0 / min(1.0, sample.temperature_at(t)) ** 2,
        )
        for k, t in enumerate(trained)
        if not sample.narrowed_at(t)
    ]


def _means(values_K: np.ndarray, part_K: np.ndarray, parts: int) -> list[float | None]:
    """The mean of each part; None of one without a token."""
    return [
        float(values_K[part_K == part].mean()) if (part_K == part).any() else None
        for part in range(parts)
    ]
