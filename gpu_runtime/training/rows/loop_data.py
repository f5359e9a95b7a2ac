"""The managed loop's samples as data of the primitive: what it averages by are the weights that it
passes.

No torch in here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_runtime.interfaces import Sample
from gpu_runtime.model_interfaces import Datum
from tinkerscript.wire.training.losses import ADVANTAGES, OLD, TARGETS, WEIGHTS

BEFORE = "logprobs_before_step"


@dataclass(frozen=True)
class _Has:
    """What not every batch has."""

    temperatures: bool
    sets: bool
    before: bool
    experts: bool


def sample_data(
    samples: Sequence[Sample], scales_S: Sequence[float] | None = None, *, replays: bool = True
) -> list[Datum]:
    """A datum for each sample, whose targets are the trained tokens. Without ``scales_S`` it has no
    weights; ``replays``: it has the experts that sampled it.

    A sample's first token is never trained: nothing predicts it. From its last one nothing is
    predicted.
    """
    has = _Has(
        temperatures=any(sample.temperatures_T is not None for sample in samples),
        sets=any(sample.allowed_T is not None for sample in samples),
        before=all(sample.before_T is not None for sample in samples),
        experts=replays,
    )
    scales = [None] * len(samples) if scales_S is None else scales_S
    return [_datum(sample, scale, has) for sample, scale in zip(samples, scales, strict=True)]


def loop_order(samples: Sequence[Sample]) -> list[int]:
    """Samples of a group stay together, in their given order."""
    return sorted(range(len(samples)), key=lambda index: (samples[index].group, index))


def trained_of(samples: Sequence[Sample], values_ST: Sequence[Sequence[float]]) -> list[float]:
    """Of a value for each token those of the trained ones, sample after sample."""
    return [
        value
        for sample, values_T in zip(samples, values_ST, strict=True)
        for value, trained in zip(values_T, sample.mask_T, strict=True)
        if trained
    ]


def _datum(sample: Sample, scale: float | None, has: _Has) -> Datum:
    ids_T = np.array(sample.token_ids_T, dtype=np.int64)
    later = len(ids_T) - 1
    tensors: dict[str, np.ndarray] = {
        TARGETS: ids_T[1:],
        OLD: np.array(sample.logprobs_T[1:], dtype=np.float32),
        ADVANTAGES: _floats(sample.advantages_T, sample.advantage, later),
    }
    if scale is not None:
        tensors[WEIGHTS] = np.full(later, scale, dtype=np.float32)
    if has.before and sample.before_T is not None:
        tensors[BEFORE] = np.array(sample.before_T[1:], dtype=np.float32)
    counted = np.array(sample.mask_T[1:], dtype=bool)
    temperatures = _floats(sample.temperatures_T, 1.0, later) if has.temperatures else None
    return Datum(
        ids_T[:-1],
        tensors,
        counted,
        temperatures,
        _objects(sample.allowed_T, later) if has.sets else None,
        # those that sampled a token computed the one before it
        _objects(sample.experts_T, later) if has.experts and sample.experts_T else None,
    )


def _floats(values_T: Sequence[float] | None, otherwise: float, later: int) -> np.ndarray:
    if values_T is None:
        return np.full(later, otherwise, dtype=np.float32)
    return np.array(values_T[1:], dtype=np.float32)


def _objects(values_T: Sequence[bytes | None] | None, later: int) -> np.ndarray:
    found = np.full(later, None, dtype=object)
    if values_T is not None:
        found[:] = values_T[1:]
    return found
