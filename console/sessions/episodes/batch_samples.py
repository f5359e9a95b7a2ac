"""What a step trained of an episode, from the episode's document: the samples that the runtime made
of its journal.

Runs of a document tile its timelines, and each run of an answer is trained in that place alone.
There is nothing to learn from the only choice that a grammar left, nor, where ``mask_truncated`` is
set, from an answer that ``max_tokens`` cut off: such tokens are context here too.
"""

import base64
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from console.sessions.episodes.documents import raw_of
from tinkerscript.wire.reading.batches import BatchSample
from tinkerscript.wire.reading.token_pages import (
    Trainer,
    raw_logprobs,
    trainer_logprobs,
    trainer_logprobs_after,
)

UNKNOWN = ""  # a grammar chose, and what it left was not recorded
Run = Mapping[str, Any]
Sets = Sequence[str | None]  # of each token the set that it was chosen from; None: every id


def episode_samples(
    document: Mapping[str, Any],
    *,
    advantages: Mapping[str, float],
    group: int,
    with_truncated: bool,
    with_side: bool,
) -> list[dict[str, Any]]:
    """The fields of each BatchSample but ``in_gradient``, in the trainer's order. ``advantages``
    are by call.
    """
    episode = _Episode(
        calls={call["id"]: (number, call) for number, call in enumerate(document["calls"])},
        allowed={(entry["call"], entry["answer"]): entry for entry in document["allowed"]},
        raw=raw_logprobs(document),
        experts={
            (entry["call"], entry["answer"]): entry["rows"] for entry in document.get("experts", ())
        },
        before=trainer_logprobs(document),
        after=trainer_logprobs_after(document),
        advantages=advantages,
        with_truncated=with_truncated,
        with_side=with_side or not any(call["options"].get("tools") for call in document["calls"]),
    )
    made = [_sample(timeline, episode) for timeline in document["timelines"]]
    trained = [sum(sample["mask"]) for sample in made]
    return [
        {"group": group, "episode_id": document["episode_id"], "weight": tokens / sum(trained)}
        | sample
        for sample, tokens in zip(made, trained, strict=True)
        if tokens
    ]


def samples_finish(samples: Sequence[Mapping[str, Any]], *, has_kl_loss: bool) -> list[BatchSample]:
    """The samples of one group: without an advantage in any of them only a KL term has a
    gradient.
    """
    in_gradient = has_kl_loss or any(any(sample["advantages"]) for sample in samples)
    return [BatchSample(**sample, in_gradient=in_gradient) for sample in samples]


def float32(values: Sequence[float]) -> list[float]:
    """The engine's values of 32 bits, of which a document has nine digits."""
    return array("f", values).tolist()


@dataclass(frozen=True)
class _Episode:
    """``calls`` by id with their number; by call and answer, ``allowed``: what its grammar left to
    choose from, ``raw``: log-probabilities at temperature 1 over all ids, ``experts`` that sampled
    its tokens, packed, and the trainer's ``before`` and ``after`` the step.
    """

    calls: Mapping[str, tuple[int, Mapping[str, Any]]]
    allowed: Mapping[tuple[str, int], Mapping[str, Any]]
    raw: Mapping[tuple[str, int], Sequence[float]]
    experts: Mapping[tuple[str, int], str]
    before: Trainer
    after: Trainer
    advantages: Mapping[str, float]
    with_truncated: bool
    with_side: bool

    def is_trained(self, run: Run) -> bool:
        has_tools = bool(self.calls[run["call"]][1]["options"].get("tools"))
        return (self.with_truncated or not self.is_truncated(run)) and (self.with_side or has_tools)

    def is_truncated(self, run: Run) -> bool:
        answers = self.calls[run["call"]][1]["answers"]
        return any(
            each["index"] == run["answer"] and each["finish_reason"] == "length" for each in answers
        )

    def temperature(self, run: Run) -> float:
        """Calls recorded before it was kept have log-probabilities at 1."""
        options = self.calls[run["call"]][1]["options"]
        return float(options.get("sampling", {}).get("temperature", 1.0))

    def raw_logprobs(self, run: Run) -> Sequence[float | None]:
        """None for each token of an answer where they were not recorded."""
        found = raw_of(self.raw, self.calls[run["call"]][1], run["answer"], run["logprobs"])
        return [None] * run["tokens"] if found is None else float32(found)

    def of_trainer(self, kept: Trainer, run: Run) -> Sequence[float | None]:
        found = kept.get((run["call"], run["answer"]))
        return (
            [None] * run["tokens"]
            if found is None
            else [None if v is None else float32([v])[0] for v in found]
        )

    def experts_of(self, run: Run) -> Sequence[str | None]:
        """Rows in base64, as the runtime's journal/token_values.py packs them."""
        data = zlib.decompress(base64.b64decode(self.experts[run["call"], run["answer"]]))
        has, rows = data[: run["tokens"]], data[run["tokens"] :]
        width, found, at = len(rows) // max(1, sum(has)), list[str | None](), 0
        for each in has:
            found.append(base64.b64encode(rows[at : at + width]).decode() if each else None)
            at += width * each
        return found

    def sets(self, run: Run) -> Sets:
        entry = self.allowed.get((run["call"], run["answer"]))
        if entry is not None:
            return [None if number < 0 else entry["sets"][number] for number in entry["numbers"]]
        is_narrowed = (
            self.calls[run["call"]][1]["options"].get("sampling", {}).get("grammar", False)
        )
        return [UNKNOWN if is_narrowed else None] * run["tokens"]


def _sample(timeline: Mapping[str, Any], episode: _Episode) -> dict[str, Any]:
    length = timeline["tokens"]
    mask, logprobs, temperatures = [0] * length, [0.0] * length, [1.0] * length
    raw: list[float | None] = [0.0] * length
    trainer: list[float | None] = [0.0] * length
    trainer_after: list[float | None] = [0.0] * length
    versions, advantages = [-1] * length, [0.0] * length
    sets: list[str | None] = [None] * length
    runs = list(_trained_runs(timeline, episode))
    for run in runs:
        sampled, of_model = float32(run["logprobs"]), episode.raw_logprobs(run)
        before, after = (
            episode.of_trainer(episode.before, run),
            episode.of_trainer(episode.after, run),
        )
        for offset, allowed in enumerate(episode.sets(run)):
            if allowed is not None and _size(allowed) <= 1:
                continue
            at = run["start"] + offset
            mask[at], sets[at] = 1, allowed
            logprobs[at], raw[at], versions[at] = (
                sampled[offset],
                of_model[offset],
                run["policy_versions"][offset],
            )
            trainer[at], trainer_after[at] = before[offset], after[offset]
            temperatures[at], advantages[at] = (
                episode.temperature(run),
                episode.advantages[run["call"]],
            )
    numbers: dict[str, int] = {}
    return {
        "calls": list(dict.fromkeys(run["call"] for run in runs)),
        "token_ids": [token for run in timeline["runs"] for token in run["token_ids"]],
        "mask": mask,
        "logprobs": logprobs,
        "raw_logprobs": raw,
        "trainer_logprobs": trainer,
        "trainer_logprobs_after": trainer_after,
        "temperatures": temperatures,
        "allowed": [
            -1 if each is None else numbers.setdefault(each, len(numbers)) for each in sets
        ],
        "allowed_sets": list(numbers),
        "experts": _experts(timeline, episode),
        "policy_versions": versions,
        "advantages": advantages,
    }


def _experts(timeline: Mapping[str, Any], episode: _Episode) -> list[str | None]:
    """Of every token that was sampled in this timeline, trained or not; none where none has any."""
    found: list[str | None] = []
    for run in timeline["runs"]:
        has = (run["call"], run["answer"]) in episode.experts
        found += episode.experts_of(run) if has else [None] * run["tokens"]
    return found if any(found) else []


def _trained_runs(timeline: Mapping[str, Any], episode: _Episode) -> Iterator[Run]:
    """Those of answers, in the order in which these were recorded."""
    runs = (run for run in timeline["runs"] if run["call"] is not None)
    for run in sorted(runs, key=lambda run: (episode.calls[run["call"]][0], run["answer"])):
        if episode.is_trained(run):
            yield run


@lru_cache(maxsize=4096)
def _size(packed: str) -> int:
    """How many token ids are in a set; 0 for UNKNOWN."""
    return (
        int.from_bytes(zlib.decompress(base64.b64decode(packed)), "little").bit_count()
        if packed
        else 0
    )
