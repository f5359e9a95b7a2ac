"""Pages of an episode's document as ``tinkerscript.wire.calls`` shows its calls, prompts
included.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tinkerscript.wire.calls import is_sampled_raw
from tinkerscript.wire.reading.token_pages import Raw, raw_logprobs


def calls_page(document: Mapping[str, Any], *, start: int, limit: int) -> list[dict[str, Any]]:
    """``limit`` calls from number ``start`` on as ``tinkerscript.wire.calls`` shows them, prompts
    included.
    """
    sequences: dict[int, _Sequence] = {}
    raw = raw_logprobs(document)
    return [
        _call(document, call, sequences, raw) for call in document["calls"][start : start + limit]
    ]


def raw_of(
    raw: Raw, call: Mapping[str, Any], answer: int, sampled: Sequence[float]
) -> Sequence[float] | None:
    """Those of an answer, ``sampled`` where they are the same; None where they were not
    recorded.
    """
    return raw.get((call["id"], answer), sampled if is_sampled_raw(call["options"]) else None)


class _Sequence:
    """A timeline's lists, each as long as the timeline: of context, the last two hold nothing that
    is read.
    """

    def __init__(self, runs: Sequence[Mapping[str, Any]]) -> None:
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.versions: list[int] = []
        for run in runs:
            context = run["call"] is None
            self.token_ids += run["token_ids"]
            self.logprobs += [0.0] * run["tokens"] if context else run["logprobs"]
            self.versions += [-1] * run["tokens"] if context else run["policy_versions"]


def _call(
    document: Mapping[str, Any], call: Mapping[str, Any], sequences: dict[int, _Sequence], raw: Raw
) -> dict[str, Any]:
    prompt, completions = call["prompt_token_ids"], []
    for answer in call["answers"]:
        shown = {name: answer[name] for name in ("index", "message", "finish_reason")}
        at = answer["timeline"]
        if at is None:
            completions.append(
                shown
                | {name: answer[name] for name in ("token_ids", "logprobs", "policy_versions")}
            )
            continue
        if at not in sequences:
            sequences[at] = _Sequence(document["timelines"][at]["runs"])
        whole, start, end = sequences[at], answer["start"], answer["start"] + answer["tokens"]
        prompt = whole.token_ids[:start]
        completions.append(
            shown
            | {
                "token_ids": whole.token_ids[start:end],
                "logprobs": whole.logprobs[start:end],
                "policy_versions": whole.versions[start:end],
            }
        )
    for each in completions:
        each["raw_logprobs"] = raw_of(raw, call, each["index"], each["logprobs"])
    shown = {
        name: value for name, value in call.items() if name not in ("answers", "prompt_token_ids")
    }
    return shown | {"prompt_token_ids": prompt, "completions": completions}
