"""Runs an agent that is not of this repository, in a process of its own, against a gateway; then
checks the record.

Their packages are of the group ``tests`` in pyproject.toml.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_runtime.journal.records import CallRecord
from gpu_runtime.journal.timelines import agents_of, merge
from support.fakes import Generated
from support.gateway_harness import Gateway
from support.programs import program_output

ROOT = Path(__file__).resolve().parents[2]
VENV = Path(sys.prefix)
PROGRAMS = Path(__file__).with_name("programs")
PROGRAM_S = 120.0
# Nothing but the gateway can be reached, and nothing of the caller's environment changes what a
# client does.
NOWHERE = "http://127.0.0.1:9"
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", ""),
    "HTTP_PROXY": NOWHERE,
    "HTTPS_PROXY": NOWHERE,
    "NO_PROXY": "127.0.0.1",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANGSMITH_TRACING": "false",
    "PYTHONUTF8": "1",
}


@dataclass
class Run:
    """What a program printed, what the gateway recorded of it, and each timeline's calls by their
    position.
    """

    output: dict[str, Any]
    calls: list[CallRecord]
    timelines: list[list[int]]


async def run_program(gateway: Gateway, program: str, *arguments: str, folder: Path) -> Run:
    """One episode of ``programs/<program>.py BASE_URL API_KEY *arguments``, ended with a reward and
    checked.
    """
    begun = await gateway.begin()
    base_url = f"http://{gateway.address}/v1"
    out = await program_output(
        str(VENV / "bin" / "python"), str(PROGRAMS / f"{program}.py"), base_url, begun["api_key"], *arguments,
        cwd=folder, env=ENVIRONMENT | {"HOME": str(folder)}, deadline_s=PROGRAM_S,
    )  # fmt: skip
    calls = await check_record(gateway, begun["episode_id"], gateway.engine.requests)
    return Run(json.loads(out.splitlines()[-1]), calls, timelines_of(calls))


async def check_record(
    gateway: Gateway, episode_id: str, log: Sequence[Generated], *, is_cut: bool = False
) -> list[CallRecord]:
    """End the one episode: its record is the engine's own ``log``, each token is trained once, all
    balances.

    ``is_cut``: the gateway ended answers where their first call does, and what the engine made of
    the same piece beyond that is not kept.
    """
    ended = await gateway.end(episode_id, 1.0)
    assert ended.status_code == 200, ended.text
    calls = gateway.journal.calls.of_episode(episode_id)
    recorded = [
        (call.prompt_ids_P, answer.token_ids_T, answer.logprobs_T)
        for call in calls
        for answer in call.completions
    ]
    seen = [(one.prompt_ids, tuple(one.token_ids), tuple(one.logprobs)) for one in log]
    if is_cut:
        kept = {prompt_ids: len(token_ids) for prompt_ids, token_ids, _ in recorded}
        assert all(len(ids) - kept[prompt] in (0, 1) for prompt, ids, _ in seen), (
            "a piece of the fake engine has two"
        )
        seen = [
            (prompt, ids[: kept[prompt]], logprobs[: kept[prompt]])
            for prompt, ids, logprobs in seen
        ]
    assert len(seen) > 0
    assert Counter(recorded) == Counter(seen)
    check_trained_once(calls)
    view = ended.json()
    assert (view["calls"], view["fate"]) == (len(calls), "accepted")
    assert view["timelines"] == len(timelines_of(calls))
    assert view["sampled_tokens"] == sum(len(token_ids) for _, token_ids, _ in seen)
    accounting = await gateway.accounting()
    assert (accounting["begun"], accounting["waiting"]) == (1, 1)
    return calls


def check_trained_once(calls: Sequence[CallRecord]) -> None:
    """The tokens that are trained, each with its log-probability, are those that were sampled."""
    sampled = Counter(
        pair
        for call in calls
        for answer in call.completions
        for pair in zip(answer.token_ids_T, answer.logprobs_T, strict=True)
    )
    trained = Counter(
        (token, logprob)
        for pieces in agents_of(calls).values()
        for timeline in merge(pieces)
        for token, is_trained, logprob in zip(
            timeline.token_ids_T, timeline.mask_T, timeline.logprobs_T, strict=True
        )
        if is_trained
    )
    assert trained == sampled


def timelines_of(calls: Sequence[CallRecord]) -> list[list[int]]:
    """The places in ``calls`` of each timeline's calls, in order. For calls with one answer
    each.
    """
    places: dict[str | None, list[int]] = {}
    for place, call in enumerate(calls):
        places.setdefault(call.agent, []).append(place)
    return sorted(
        [places[agent][piece] for piece in timeline.segments]
        for agent, pieces in agents_of(calls).items()
        for timeline in merge(pieces)
    )


def call_text(name: str, **arguments: Any) -> str:
    """A tool call as a model of the Qwen family writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
