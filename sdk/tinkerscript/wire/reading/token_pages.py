"""Pages of an episode's document: a million tokens are read in parts.

The document is plain JSON: it was checked when it was written, and a model of each token would cost
more than the rest.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..calls import is_sampled_raw

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
