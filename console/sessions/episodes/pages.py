"""Pages of an episode's document as ``tinkerscript.wire.calls`` shows its calls, prompts included."""

from collections.abc import Mapping, Sequence
from typing import Any


def calls_page(document: Mapping[str, Any], *, start: int, limit: int) -> list[dict[str, Any]]:
    """``limit`` calls from number ``start`` on as ``tinkerscript.wire.calls`` shows them, prompts included."""
    sequences: dict[int, _Sequence] = {}
    return [_call(document, call, sequences) for call in document["calls"][start : start + limit]]


class _Sequence:
    """A timeline's lists, each as long as the timeline: of context, the last two hold nothing that is read."""

    def __init__(self, runs: Sequence[Mapping[str, Any]]) -> None:
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.versions: list[int] = []
        for run in runs:
            context = run["call"] is None
            self.token_ids += run["token_ids"]
            self.logprobs += [0.0] * run["tokens"] if context else run["logprobs"]
            self.versions += [-1] * run["tokens"] if context else run["policy_versions"]


def _call(document: Mapping[str, Any], call: Mapping[str, Any], sequences: dict[int, _Sequence]) -> dict[str, Any]:
    prompt, completions = call["prompt_token_ids"], []
    for answer in call["answers"]:
        shown = {name: answer[name] for name in ("index", "message", "finish_reason")}
        at = answer["timeline"]
        if at is None:
            completions.append(shown | {name: answer[name] for name in ("token_ids", "logprobs", "policy_versions")})
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
    shown = {name: value for name, value in call.items() if name not in ("answers", "prompt_token_ids")}
    return shown | {"prompt_token_ids": prompt, "completions": completions}
