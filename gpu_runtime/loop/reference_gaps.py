"""The KL term in a reward: how far the trained tokens of an episode are from the reference. No
torch in here.

A token counts log pi_engine - log pi_reference (k1, Schulman 2020), within FARTHEST_TOKEN. What the
engine's correction leaves out of the loss is left out here: its log-probability says nothing of the
policy, and must not decide a reward. Shapes: K trained tokens of a sample.
"""

import math
from collections.abc import Sequence

import numpy as np

from gpu_runtime.loop.batching import Batch
from gpu_runtime.loop.sample import Sample
from tinkerscript.wire.training.engine_correction import AGREES, EngineCorrection, Level

# Nats that a token counts, of either sign: OpenRLHF bounds the term of its reward so, verl k3.
FARTHEST_TOKEN = 10.0


def reference_gaps(
    batch: Batch,
    samples: Sequence[Sample],
    before_ST: Sequence[Sequence[float]],
    reference_ST: Sequence[Sequence[float]],
    correction: EngineCorrection,
) -> dict[str, float]:
    """``reference_gap`` of each episode, from the log-probabilities of its ``samples`` under the
    trainer's policy before the step and under the reference.
    """
    owner = {call.id: episode.record.id for episode in batch.episodes for call in episode.calls}
    gaps: dict[str, list[float]] = {episode.record.id: [] for episode in batch.episodes}
    for sample, before_T, reference_T in zip(samples, before_ST, reference_ST, strict=True):
        trained_T = np.array(sample.mask_T, dtype=bool)
        engine_K, before_K, reference_K = (
            np.array(each, dtype=np.float64)[trained_T]
            for each in (sample.logprobs_T, before_T, reference_T)
        )
        kept_K = ~left_out(correction, before_K - engine_K)
        far_K = np.clip(engine_K - reference_K, -FARTHEST_TOKEN, FARTHEST_TOKEN)
        gaps[owner[sample.call_ids[0]]] += far_K[kept_K].tolist()
    return {episode_id: math.fsum(of_tokens) for episode_id, of_tokens in gaps.items()}


def left_out(correction: EngineCorrection, gap_K: np.ndarray) -> np.ndarray:
    """Which tokens of a sample the loss leaves out, of ``gap_K`` = trainer - engine: the formulas
    of training/objective/engine_correction.py.
    """
    gap_K = np.where(np.abs(gap_K) <= AGREES, 0.0, gap_K)
    out_K = np.zeros(gap_K.shape, dtype=bool)
    if correction.mask != "none":
        ratio_K = np.exp(_at_level(correction.mask, gap_K))
        low, high = correction.mask_low, correction.mask_high
        out_K |= (ratio_K < (low or 0.0)) | (ratio_K > (math.inf if high is None else high))
    if correction.veto is not None:
        out_K |= (np.abs(gap_K) > -math.log(correction.veto)).any()
    return out_K


def _at_level(level: Level, gap_K: np.ndarray) -> np.ndarray:
    if level == "token" or not len(gap_K):
        return gap_K
    return np.full_like(gap_K, gap_K.sum() if level == "sequence" else gap_K.mean())
