"""An episode's document in parts: a million tokens are read in pages, and an outline shows where
they stand out in a few numbers for any length. Tokens are numbered through all timelines.

The document is plain JSON: it was checked when it was written, and a model of each token would cost
more than the rest.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from ..base import Response
from .calls import is_sampled_raw

BY_TOKEN = ("token_ids", "pieces", "logprobs", "policy_versions")
Advantages = Mapping[str, float] | float | None
# log-probabilities at temperature 1 over all ids, by call and answer
Raw = Mapping[tuple[str, int], Sequence[float]]
# the trainer's; None of a token that it did not train
Trainer = Mapping[tuple[str, int], Sequence[float | None]]


def timelines_page(
    document: Mapping[str, Any], *, advantages: Advantages, start: int, limit: int
) -> tuple[list[dict[str, Any]], int | None]:
    """At most ``limit`` tokens from number ``start`` on, and the number of the next page's first
    one or None.

    Tokens are numbered through all timelines. A run of context is not divided: it is in the page in
    which it begins. ``advantages`` are by call, or one for all calls.
    """
    page: list[dict[str, Any]] = []
    raw, trainer, after = (
        raw_logprobs(document),
        trainer_logprobs(document),
        trainer_logprobs_after(document),
    )
    same = {call["id"] for call in document["calls"] if is_sampled_raw(call["options"])}
    first = 0
    left = limit
    for timeline in document["timelines"]:
        runs: list[dict[str, Any]] = []
        for run in timeline["runs"]:
            skip, end = max(0, start - first), first + run["tokens"]
            if end > start and not (run["call"] is None and skip):
                if left <= 0:
                    return _add(page, timeline, runs), first
                length = run["tokens"] if run["call"] is None else min(run["tokens"] - skip, left)
                told, before, later = (
                    _values(kept, run, skip, length) for kept in (raw, trainer, after)
                )
                own = {
                    "advantage": _advantage(run["call"], advantages),
                    "raw_logprobs": told,
                    "trainer_logprobs": before,
                    "trainer_logprobs_after": later,
                    "is_sampled_raw": run["call"] in same,
                }
                runs.append(_part(run, skip, length) | own)
                left -= length
                if skip + length < run["tokens"]:
                    return _add(page, timeline, runs), first + skip + length
            first = end
        page = _add(page, timeline, runs)
    return page, None


def raw_logprobs(document: Mapping[str, Any]) -> Raw:
    """Those that differ from what was sampled from."""
    return {
        (entry["call"], entry["answer"]): entry["logprobs"] for entry in document["raw_logprobs"]
    }


def trainer_logprobs(document: Mapping[str, Any]) -> Trainer:
    """Before the step that trained an answer; one that no step trained has none."""
    return {
        (entry["call"], entry["answer"]): entry["logprobs"]
        for entry in document["trainer_logprobs"]
    }


def trainer_logprobs_after(document: Mapping[str, Any]) -> Trainer:
    """After that step; an answer of a session without ``logprobs_after_step`` has none."""
    return {
        (entry["call"], entry["answer"]): entry["logprobs"]
        for entry in document["trainer_logprobs_after"]
    }


def _values(
    kept: Trainer | Raw, run: Mapping[str, Any], skip: int, length: int
) -> Sequence[float | None] | None:
    found = kept.get((run["call"], run["answer"]))
    return None if found is None else found[skip : skip + length]


def _add(
    page: list[dict[str, Any]], timeline: Mapping[str, Any], runs: list[Any]
) -> list[dict[str, Any]]:
    return [*page, {**timeline, "runs": runs}] if runs else page


def _part(run: Mapping[str, Any], skip: int, length: int) -> dict[str, Any]:
    if length == run["tokens"]:
        return dict(run)
    end = skip + length
    lists = {name: run[name][skip:end] for name in BY_TOKEN}
    split = {
        str(int(at) - skip): text
        for at, text in run["split_bytes"].items()
        if skip <= int(at) < end
    }
    text = "".join(lists["pieces"])
    return {
        **run,
        **lists,
        "start": run["start"] + skip,
        "tokens": length,
        "text": text,
        "split_bytes": split,
    }


def _advantage(call: str | None, advantages: Advantages) -> float | None:
    if call is None or advantages is None:
        return None
    return advantages.get(call) if isinstance(advantages, Mapping) else advantages


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
        "the sampled one); null where none is kept.",
    )
    changes: list[float | None] = Field(
        [],
        description="The trainer's log-probability after the step - before it, the one of the "
        "largest size; null where none is kept.",
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
