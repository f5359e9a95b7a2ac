"""Where in an episode its tokens stand out: a few numbers for any length, found without the tokens.

Tokens are numbered through all timelines, as in ``token_pages``.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from ..base import Response
from .token_pages import trainer_logprobs, trainer_logprobs_after

STRETCHES = 240  # at most; a shorter episode has one for each token


class EpisodeOutline(Response):
    """An episode in stretches of ``width`` tokens, numbered through all timelines; the last may be
    shorter.

    The lists have the same length. Of a stretch without a sampled token, the last six are null.
    """

    timelines: list[int] = Field(
        description="The tokens of each timeline: the first token of the next has their sum."
    )
    width: int = Field(ge=1)
    surprising: list[int | None] = Field(
        description="The sampled token with the lowest log-probability: its number."
    )
    logprobs: list[float | None] = Field(description="Of that token.")
    advantages: list[float | None] = Field(description="The one of the largest size.")
    versions: list[int | None] = Field(description="The newest policy version.")
    ratios: list[float | None] = Field(
        [],
        description="The furthest from 1 of exp(the trainer's log-probability before the step - "
        "the sampled one); null"
        " where none is kept.",
    )
    changes: list[float | None] = Field(
        [],
        description="The trainer's log-probability after the step - before it, the one of the "
        "largest size; null where"
        " none is kept.",
    )


def outline(
    document: Mapping[str, Any], advantages: Mapping[str, float] | float | None
) -> dict[str, Any]:
    """The ``EpisodeOutline`` of an episode's document, as plain JSON values. Costs one look at each
    token.
    """
    lengths = [timeline["tokens"] for timeline in document["timelines"]]
    width = max(1, -(-sum(lengths) // STRETCHES))
    count = -(-sum(lengths) // width)
    surprising: list[int | None] = [None] * count
    logprobs: list[float | None] = [None] * count
    largest: list[float | None] = [None] * count
    versions: list[int | None] = [None] * count
    apart: list[float | None] = [None] * count
    changes: list[float | None] = [None] * count
    trainer, trainer_after = trainer_logprobs(document), trainer_logprobs_after(document)
    first = 0
    for timeline in document["timelines"]:
        for run in timeline["runs"]:
            if run["call"] is not None and run["tokens"]:
                advantage = (
                    advantages.get(run["call"]) if isinstance(advantages, Mapping) else advantages
                )
                before_step, after_step = (
                    kept.get((run["call"], run["answer"])) for kept in (trainer, trainer_after)
                )
                for at, start, end in _parts(first, run["tokens"], width):
                    part = run["logprobs"][start:end]
                    lowest = min(part)
                    before = logprobs[at]
                    if before is None or lowest < before:
                        surprising[at], logprobs[at] = first + start + part.index(lowest), lowest
                    if advantage is not None and abs(advantage) >= abs(largest[at] or 0.0):
                        largest[at] = advantage
                    if before_step is not None:
                        apart[at] = _furthest(apart[at], before_step[start:end], part)
                        if after_step is not None:
                            changes[at] = _furthest(
                                changes[at], after_step[start:end], before_step[start:end]
                            )
                    versions[at] = max(versions[at] or 0, *run["policy_versions"][start:end])
            first += run["tokens"]
    return {
        "timelines": lengths, "width": width, "surprising": surprising, "logprobs": logprobs, "advantages": largest,
        "versions": versions, "ratios": [None if each is None else math.exp(each) for each in apart],
        "changes": changes,
    }  # fmt: skip


def _furthest(
    known: float | None, trainer: Sequence[float | None], other: Sequence[float | None]
) -> float | None:
    """The difference of the largest size; so small that its exponential is a number."""
    pairs = zip(trainer, other, strict=True)
    found = [one - another for one, another in pairs if one is not None and another is not None]
    if not found:
        return known
    largest = max(max(found), min(found), 0.0 if known is None else known, key=abs)
    return max(-700.0, min(700.0, largest))


def _parts(first: int, tokens: int, width: int) -> list[tuple[int, int, int]]:
    """A run whose first token has the number ``first``, by stretches: which one, and from where to
    where of the run.
    """
    numbers = range(first // width, (first + tokens - 1) // width + 1)
    return [
        (at, max(0, at * width - first), min(tokens, (at + 1) * width - first)) for at in numbers
    ]
