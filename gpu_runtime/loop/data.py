"""The managed loop's samples as data of ``forward_backward``, and what that returns as values of
their tokens. What the loop averages by are the weights that it passes: the trainer sums.

No torch in here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_runtime.model_interfaces import BEFORE, Datum
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import ADVANTAGES, LOSSES, OLD, TARGETS, WEIGHTS

from .sample import Sample


@dataclass(frozen=True)
class _Has:
    """What not every batch has."""

    temperatures: bool
    sets: bool
    before: bool
    experts: bool


def loop_data(samples: Sequence[Sample], config: SessionConfig) -> list[Datum]:
    """The data of one update: their weights are the session's average over the trained tokens of
    ``samples``. Groups follow one another, as the samples do.
    """
    return sample_data(samples, batch_scales(samples, config), replays=config.routing_replay)


def batch_scales(samples: Sequence[Sample], config: SessionConfig) -> list[float]:
    """``scales_S`` of one update: the session's way of averaging over the trained tokens of
    ``samples``.
    """
    lengths_S = [sum(sample.mask_T) for sample in samples]
    return token_scales(
        config.loss, lengths_S, [sample.weight for sample in samples], config.max_tokens
    )


def token_scales(
    name: str, lengths_S: list[int], weights_S: list[float], max_tokens: int
) -> list[float]:
    """The factor of each sample's tokens in the sum over the whole batch.

    ``lengths_S`` counts trained tokens. ``weights_S`` is a sample's part of the trained tokens of
    its episode; they sum to 1 over the samples of one, E = sum(weights_S) is the number of
    episodes. One rule for every loss: the samples of an episode count as one sequence of all its
    trained tokens, weight / length = 1 / (trained tokens of the episode).

    - episodes: weight / (E * length): mean over the episode's tokens, then over episodes
      (arXiv:2402.03300, eq. 3)
    - constant: 1 / (E * max_tokens): instead of the length, which rewards no brevity
      (arXiv:2503.20783)
    - tokens: 1 / (all trained tokens): every token counts the same (arXiv:2503.14476, eq. 8)
    """
    episodes, average = sum(weights_S), LOSSES[name].average
    if average == "episodes":
        return [w / (episodes * n) if n else 0.0 for n, w in zip(lengths_S, weights_S, strict=True)]
    if average == "constant":
        return [1.0 / (episodes * max_tokens)] * len(weights_S)
    return [1.0 / max(1, sum(lengths_S))] * len(lengths_S)


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


def values_by_token(values: Sequence[np.ndarray]) -> list[list[float]]:
    """``values_T`` of each sample, from those of its datum's targets: nothing predicts its first
    token.
    """
    return [[0.0, *each.tolist()] for each in values]


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
