"""The averages of a loss, as weights of tokens: the trainer sums, and who gives it a batch says
what counts how much.

No torch in here.
"""

from collections.abc import Sequence

from gpu_runtime.interfaces import Sample
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import LOSSES


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

    - episodes: weight / (E * length): mean over the episode's tokens, then over episodes (arXiv:2402.03300, eq. 3)
    - constant: 1 / (E * max_tokens): instead of the length, which rewards no brevity (arXiv:2503.20783)
    - tokens: 1 / (all trained tokens): every token counts the same (arXiv:2503.14476, eq. 8)
    """
    episodes, average = sum(weights_S), LOSSES[name].average
    if average == "episodes":
        return [w / (episodes * n) if n else 0.0 for n, w in zip(lengths_S, weights_S, strict=True)]
    if average == "constant":
        return [1.0 / (episodes * max_tokens)] * len(weights_S)
    return [1.0 / max(1, sum(lengths_S))] * len(lengths_S)
