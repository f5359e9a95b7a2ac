"""The real engine keeps to what a call's options ask, and says of each token what its weights
said.
"""

import asyncio
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from gpu_runtime.generation.engine_options import StructuredOutputs
from gpu_runtime.journal.token_values import UNKNOWN, set_size, sets_number
from gpu_runtime.rendering.harmony import MARKS, Harmony
from gpu_runtime.rendering.tool_formats import HERMES
from gpu_runtime.rendering.tool_grammars import (
    call_or_answer,
    forced_call,
    harmony_answer,
    harmony_call,
    text_then_calls,
)
from gpu_runtime.training.policy import allowed_alone, token_logprobs
from gpu_runtime.training.rows.tensors import sets_tensor
from support.tiny_model import tiny_model_make
from support.vllm_sample import PROMPT_IDS, sample_all

# What vLLM imports warns of its own future.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
CITY = {"$defs": {"City": {"enum": ["Oslo", "Rome"]}}, "type": "object", "required": ["city"]}
CITY |= {"properties": {"city": {"$ref": "#/$defs/City"}}, "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
# A marker that a model with random weights soon writes.
SOON = dataclasses.replace(HERMES, marker="e", prefill="e", list_frame=("", "!"))
MARKED = dataclasses.replace(SOON, marker_id=7)
# Letters that the grammars need nowhere else stand for the marks, and the end of turn for
# <|return|>, the last of them.
HARMONY = Harmony(
    dict(zip(MARKS, [*(3 + ord(letter) - 32 for letter in "ABDEFG"), 1], strict=True))
)
YES = json.dumps({"enum": ["yes", "no"]})
DIGITS, THREE_DIGITS = (StructuredOutputs(regex=form).tag for form in ("[0-9]{1,5}", "[0-9]{3}"))
REQUESTS: dict[str, dict[str, Any]] = {
    "cold": {"max_tokens": 24, "temperature": 0.3, "seed": 1},
    "narrow": {"max_tokens": 24, "temperature": 1.0, "top_p": 0.2, "seed": 2},
    "hot": {"max_tokens": 24, "temperature": 1.8, "seed": 3},
    "plain": {"max_tokens": 24, "temperature": 1.0, "top_logprobs": 2, "seed": 23},
    "greedy": {"max_tokens": 24, "temperature": 0.0},
    "top k": {"max_tokens": 24, "top_k": 3, "seed": 7},
    "min p": {"max_tokens": 24, "temperature": 0.5, "min_p": 0.6, "seed": 8},
    "biased": {"max_tokens": 24, "logit_bias": {20: 3.0, 30: -100.0}, "seed": 9},
    "penalised": {
        "max_tokens": 24,
        "temperature": 0.7,
        "frequency_penalty": 1.5,
        "presence_penalty": -1.0,
        "repetition_penalty": 1.3,
        "seed": 10,
    },
    "of the prompt": {"max_tokens": 1, "temperature": 0.3, "prompt_logprobs": 2, "seed": 13},
    "stop token": {"max_tokens": 24, "logit_bias": {20: 100.0}, "stop_token_ids": [20]},
    "no stop yet": {
        "max_tokens": 24,
        "logit_bias": {20: 100.0},
        "stop_token_ids": [20],
        "min_tokens": 5,
        "seed": 11,
    },
    "end": {"max_tokens": 6, "logit_bias": {1: 100.0}},
    "end ignored": {"max_tokens": 6, "logit_bias": {1: 100.0}, "ignore_eos": True},
    **{
        f"structure {kind}": {
            "max_tokens": 30,
            "structural_tag": StructuredOutputs(**form).tag,
            "seed": 12,
        }
        for kind, form in {
            "choice": {"choice": ["yes", "no"]},
            "regex": {"regex": "[0-9]{3}"},
            "grammar": {"grammar": 'root ::= "a" | "b" root'},
        }.items()
    },
    "hot schema": {
        "max_tokens": 60,
        "temperature": 1.5,
        "json_schema": json.dumps(CITY),
        "seed": 14,
    },
    "late end": {
        "max_tokens": 9,
        "structural_tag": DIGITS,
        "min_tokens": 3,
        "temperature": 0.5,
        "seed": 15,
    },
    "no end yet": {"max_tokens": 9, "min_tokens": 4, "seed": 16},
    "past its end": {
        "max_tokens": 6,
        "structural_tag": THREE_DIGITS,
        "ignore_eos": True,
        "seed": 17,
    },
    "forced": {
        "max_tokens": 200,
        "structural_tag": forced_call(HERMES, [TOOL], many=False),
        "seed": 4,
    },
    **{
        f"either {n}": {
            "max_tokens": 300,
            "structural_tag": call_or_answer(HERMES, [TOOL], YES, many=False),
            "seed": n,
        }
        for n in range(8)
    },
    **{
        f"strict {n}": {
            "max_tokens": 300,
            "structural_tag": text_then_calls(SOON, [TOOL], many=False),
            "seed": n,
        }
        for n in range(8)
    },
    "marked": {
        "max_tokens": 24,
        "structural_tag": text_then_calls(MARKED, [TOOL], many=False),
        "seed": 6,
    },
    "channels forced": {
        "max_tokens": 90,
        "structural_tag": harmony_call(HARMONY, [TOOL]),
        "stop_token_ids": HARMONY.stop_ids,
        "seed": 20,
    },
    **{
        f"channels {n}": {
            "max_tokens": 90,
            "structural_tag": harmony_answer(HARMONY, [TOOL], json.loads(DIGITS)["format"]),
            "stop_token_ids": HARMONY.stop_ids,
            "seed": n,
        }
        for n in range(8)
    },
    "no schema": {"max_tokens": 8, "json_schema": '{"type": "banana"}'},
    "warm with alternatives": {
        "max_tokens": 24,
        "temperature": 2.0,
        "top_logprobs": 20,
        "seed": 21,
    },
    "an evaluation": {"max_tokens": 8, "temperature": 0.7, "seed": 22, "for_training": False},
}
BESIDE = (
    "cold",
    "plain",
    "hot schema",
    "warm with alternatives",
    "no end yet",
    "narrow",
    "hot",
    "greedy",
)


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """The model, and what the engine answered to each of the requests, and to some of them in one
    batch.
    """
    folder = tiny_model_make(tmp_path_factory.mktemp("tiny"))
    asked = {name: {"for_training": True, **options} for name, options in REQUESTS.items()}
    found = asyncio.run(
        sample_all(str(folder), list(asked.values()), [asked[name] for name in BESIDE])
    )
    names = [*REQUESTS, *(f"{name}, beside others" for name in BESIDE)]
    return folder, dict(zip(names, found, strict=True))


@pytest.mark.parametrize(
    "name", ["cold", "narrow", "hot", "greedy", "top k", "min p", "biased", "penalised"]
)
def test_logprobs_are_those_of_the_distribution_that_was_sampled_from(answers, name: str) -> None:
    """log softmax of (logits + bias, penalised) / T, renormalised over what top_p, top_k and min_p
    keep; a greedy answer has those of T = 1.
    """
    folder, found = answers
    ids, logprobs = found[name]["token_ids"], found[name]["logprobs"]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([[*PROMPT_IDS, *ids]])).logits[0, len(PROMPT_IDS) - 1 : -1]
    asked = REQUESTS[name]
    logits = penalised(logits, ids, asked)
    distribution = (logits / (asked.get("temperature", 1.0) or 1.0)).log_softmax(-1)
    kept = nucleus(distribution, asked.get("top_p", 1.0))
    if top_k := asked.get("top_k"):
        kept &= distribution >= distribution.topk(top_k).values[:, -1:]
    kept &= (
        distribution.exp()
        >= asked.get("min_p", 0.0) * distribution.exp().max(-1, keepdim=True).values
    )
    expected = (
        distribution.masked_fill(~kept, -torch.inf)
        .log_softmax(-1)
        .gather(1, torch.tensor(ids)[:, None])[:, 0]
    )
    torch.testing.assert_close(torch.tensor(logprobs), expected, rtol=0, atol=1e-4)


def test_a_grammars_tokens_have_the_log_probabilities_over_the_recorded_ids(answers) -> None:
    """log softmax of logits / T over the ids that were recorded: what the trainer computes. An only
    choice has 0.
    """
    folder, found = answers
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    bound = [name for name, answer in found.items() if answer.get("allowed")]
    assert {
        "structure regex",
        "hot schema",
        "forced",
        "late end",
        "no end yet",
        "strict 0",
        "marked",
        "channels 0",
    } <= {*bound}
    sizes: dict[str, list[int]] = {}
    for name in bound:
        ids, sets_T = found[name]["token_ids"], found[name]["allowed"]
        assert len(sets_T) == len(ids) and UNKNOWN not in sets_T
        with torch.no_grad():
            logits_TV = model(torch.tensor([[*PROMPT_IDS, *ids]])).logits[
                0, len(PROMPT_IDS) - 1 : -1
            ]
        asked = REQUESTS[name.removesuffix(", beside others")]
        logits_TV = penalised(logits_TV, ids, asked)
        numbers_T, sets = sets_number(sets_T)
        if sets:
            logits_TV = allowed_alone(
                logits_TV, sets_tensor(sets, torch.device("cpu"))[torch.tensor(numbers_T)]
            )
        temperatures_T = torch.full((len(ids),), asked.get("temperature", 1.0))
        expected_T = token_logprobs(logits_TV, torch.tensor(ids), temperatures_T)
        torch.testing.assert_close(
            torch.tensor(found[name]["logprobs"]), expected_T, rtol=0, atol=1e-4, msg=name
        )
        sizes[name] = [98 if each is None else set_size(each) for each in sets_T]
    assert sizes["structure regex"][:3] == [10, 10, 10] and sizes["structure regex"][3:] in (
        [1],
        [],
    )
    assert sizes["late end"][:4] == [10, 10, 10, 11], "ten digits, and after three of them the end"
    assert sizes["no end yet"][:5] == [97, 97, 97, 97, 98]
    assert sizes["past its end"][4:] == [98, 98], "the grammar is over"
    assert min(sizes["hot schema"]) == 1 and max(sizes["hot schema"]) > 1
    assert not found["cold"]["allowed"]


def test_raw_log_probabilities_are_those_of_temperature_1_over_all_ids(answers) -> None:
    """log softmax of the logits as they are, beside what was sampled from, wherever the two
    differ.
    """
    folder, found = answers
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with_raw = {name: answer for name, answer in found.items() if answer.get("raw_logprobs")}
    same = {"plain", "greedy", "plain, beside others", "greedy, beside others"}
    assert {*found} - {*with_raw} == same | {"an evaluation", "no schema"}
    for name, answer in with_raw.items():
        ids = answer["token_ids"]
        with torch.no_grad():
            logits_TV = model(torch.tensor([[*PROMPT_IDS, *ids]])).logits[
                0, len(PROMPT_IDS) - 1 : -1
            ]
        expected_T = logits_TV.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
        torch.testing.assert_close(
            torch.tensor(answer["raw_logprobs"]), expected_T, rtol=0, atol=1e-4, msg=name
        )
        assert len(answer["logprobs"]) == len(ids) and answer["logprobs"] != answer["raw_logprobs"]


@pytest.mark.parametrize("name", ["plain", "warm with alternatives", "plain, beside others"])
def test_the_likeliest_tokens_are_shown_as_they_were_asked_for(answers, name: str) -> None:
    """The room that is asked for beside them is not among them."""
    folder, found = answers
    asked, answer = REQUESTS[name.removesuffix(", beside others")], found[name]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = answer["token_ids"]
    with torch.no_grad():
        logits_TV = model(torch.tensor([[*PROMPT_IDS, *ids]])).logits[0, len(PROMPT_IDS) - 1 : -1]
    logprobs_TV = (logits_TV / asked["temperature"]).log_softmax(-1)
    for t, top in enumerate(answer["top_logprobs"]):
        assert set(top) == {ids[t], *logprobs_TV[t].topk(asked["top_logprobs"]).indices.tolist()}
        for token, logprob in top.items():
            assert logprob == pytest.approx(logprobs_TV[t, token].item(), abs=1e-4)
    assert len(answer["top_logprobs"]) == len(ids)


def penalised(logits_TV: torch.Tensor, ids: list[int], asked: dict[str, Any]) -> torch.Tensor:
    """Logits after biases and penalties: repetition by prompt and answer, the other two by the
    answer alone.
    """
    for token, bias in asked.get("logit_bias", {}).items():
        logits_TV[:, token] += bias
    factor = asked.get("repetition_penalty", 1.0)
    for t in range(len(ids)):
        seen = torch.tensor(sorted({*PROMPT_IDS, *ids[:t]}))
        row = logits_TV[t]
        row[seen] = torch.where(row[seen] > 0, row[seen] / factor, row[seen] * factor)
        counts = torch.bincount(torch.tensor(ids[:t], dtype=torch.long), minlength=row.numel())
        row -= asked.get("frequency_penalty", 0.0) * counts + asked.get("presence_penalty", 0.0) * (
            counts > 0
        )
    return logits_TV


def nucleus(logprobs_TV: torch.Tensor, top_p: float) -> torch.Tensor:
    """The smallest set of the most likely tokens that holds ``top_p`` of the mass."""
    ordered, order = logprobs_TV.exp().sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before < top_p)


def test_logprobs_of_the_prompt_are_those_of_temperature_1(answers) -> None:
    folder, found = answers
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        expected = model(torch.tensor([PROMPT_IDS])).logits[0].log_softmax(-1)
    first, *others = found["of the prompt"]["prompt_logprobs"]
    assert first == {} and len(others) == len(PROMPT_IDS) - 1
    for position, entry in enumerate(others):
        assert {PROMPT_IDS[position + 1], *expected[position].topk(2).indices.tolist()} == set(
            entry
        )
        for token, logprob in entry.items():
            assert logprob == pytest.approx(expected[position, token].item(), abs=1e-4)


def test_a_bias_moves_a_token_in_and_another_out(answers) -> None:
    _, found = answers
    assert 30 not in found["biased"]["token_ids"] and 20 in found["biased"]["token_ids"]


def test_an_answer_ends_where_it_is_asked_to(answers) -> None:
    _, found = answers
    stopped, later = found["stop token"], found["no stop yet"]
    assert (stopped["token_ids"], stopped["text"]) == ([20], ""), "the id is kept, its text is not"
    assert len(later["token_ids"]) == 6 and later["token_ids"].index(20) == 5
    assert len(later["text"]) == 5
    assert found["end"]["token_ids"] == [1]
    assert found["end ignored"]["token_ids"] == [1] * 6


def test_answers_in_channels_end_with_a_token_that_stops(answers) -> None:
    """A token that stops is allowed where a grammar ends and nowhere inside of it, so that no
    grammar names one.
    """
    _, found = answers
    forced = found["channels forced"]["token_ids"]
    assert len(forced) < 90 and forced[-1] in HARMONY.stop_ids
    ended = [found[f"channels {n}"]["token_ids"] for n in range(8)]
    assert any(ids[-1] in HARMONY.stop_ids for ids in ended)
    assert all(ids[-1] in HARMONY.stop_ids or len(ids) == 90 for ids in ended)


def test_structured_outputs_of_every_kind_hold(answers) -> None:
    _, found = answers
    assert found["structure choice"]["text"] in ("yes", "no")
    assert re.fullmatch("[0-9]{3}", found["structure regex"]["text"])
    assert re.fullmatch("b*a?", found["structure grammar"]["text"])


def test_a_forced_call_is_one_of_the_tools_schema_with_its_references(answers) -> None:
    _, found = answers
    call = json.loads(found["forced"]["text"].removesuffix(HERMES.list_frame[1]))
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
            assert [call.name for call in calls] == ["get_weather"] or json.loads(content) in (
                "yes",
                "no",
            )
    assert kinds, "asked"


def test_a_schema_that_is_none_is_refused_and_the_engine_serves_on(answers) -> None:
    _, found = answers
    assert found["no schema"]["refused"]
