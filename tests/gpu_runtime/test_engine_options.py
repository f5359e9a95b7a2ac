"""The real engine keeps to what a call's options ask, and says of each token what its weights said."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import tiny_model_make
from transformers import AutoModelForCausalLM
from vllm_sample import PROMPT_IDS

from gpu_runtime.gateway.call_grammars import call_or_answer, forced_call, text_then_calls
from gpu_runtime.gateway.tool_calls import HERMES

pytestmark = pytest.mark.engine
ROOT = Path(__file__).resolve().parents[2]
CITY = {"$defs": {"City": {"enum": ["Oslo", "Rome"]}}, "type": "object", "required": ["city"]}
CITY |= {"properties": {"city": {"$ref": "#/$defs/City"}}, "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
# A marker that a model with random weights soon writes.
SOON = dataclasses.replace(HERMES, marker="e", prefill="e", closing="!")
MARKED = dataclasses.replace(SOON, marker_id=7)
YES = json.dumps({"enum": ["yes", "no"]})
REQUESTS: dict[str, dict[str, Any]] = {
    "cold": {"max_tokens": 24, "temperature": 0.3, "seed": 1},
    "narrow": {"max_tokens": 24, "temperature": 1.0, "top_p": 0.2, "seed": 2},
    "hot": {"max_tokens": 24, "temperature": 1.8, "seed": 3},
    "greedy": {"max_tokens": 24, "temperature": 0.0},
    "forced": {"max_tokens": 200, "structural_tag": forced_call(HERMES, [TOOL], many=False), "seed": 4},
    **{
        f"either {n}": {"max_tokens": 300, "structural_tag": call_or_answer(HERMES, [TOOL], YES, many=False), "seed": n}
        for n in range(8)
    },
    **{
        f"strict {n}": {"max_tokens": 300, "structural_tag": text_then_calls(SOON, [TOOL], many=False), "seed": n}
        for n in range(8)
    },
    "marked": {"max_tokens": 24, "structural_tag": text_then_calls(MARKED, [TOOL], many=False), "seed": 6},
    "no schema": {"max_tokens": 8, "json_schema": '{"type": "banana"}'},
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """The model, and what the engine answered to each of the requests."""
    folder = tiny_model_make(tmp_path_factory.mktemp("tiny"))
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "vllm_sample.py"), str(folder)],
        input=json.dumps(list(REQUESTS.values())),
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return folder, dict(zip(REQUESTS, json.loads(ran.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", ["cold", "narrow", "hot", "greedy"])
def test_logprobs_are_those_of_the_weights_whatever_the_sampling(answers, name: str) -> None:
    """Parity with the trainer, which knows no temperature: log softmax of the logits as they are."""
    folder, found = answers
    ids, logprobs = found[name]["token_ids"], found[name]["logprobs"]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([[*PROMPT_IDS, *ids]])).logits[0, len(PROMPT_IDS) - 1 : -1]
    expected = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(logprobs), expected, rtol=0, atol=1e-4)


def test_a_forced_call_is_one_of_the_tools_schema_with_its_references(answers) -> None:
    _, found = answers
    call = json.loads(found["forced"]["text"])
    assert call["name"] == "get_weather"
    assert call["arguments"]["city"] in ("Oslo", "Rome")


def test_what_begins_as_a_call_of_a_strict_tool_is_one(answers) -> None:
    _, found = answers
    texts = [found[f"strict {n}"]["text"].partition("e") for n in range(8)]
    calls = [json.loads(call.removesuffix("!")) for _, begun, call in texts if begun]
    assert calls, texts
    assert all(call["arguments"]["city"] in ("Oslo", "Rome") for call in calls)
    assert found["marked"]["token_ids"], "a special token as the marker is understood too"


def test_an_answer_with_a_format_and_tools_is_one_or_the_other(answers) -> None:
    _, found = answers
    kinds = set()
    for name, answer in found.items():
        if name.startswith("either"):
            content, calls = HERMES.parse(answer["text"])
            kinds.add(bool(calls))
            assert [call.name for call in calls] == ["get_weather"] or json.loads(content) in ("yes", "no")
    assert kinds, "asked"


def test_a_schema_that_is_none_is_refused_and_the_engine_serves_on(answers) -> None:
    _, found = answers
    assert found["no schema"]["refused"]
