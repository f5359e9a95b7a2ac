"""Calls with a mark around each argument, by the templates of Qwen3.5 and Nemotron 3."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from gpu_runtime.journal.timelines import agents_of, merge
from gpu_runtime.rendering.calls.schema_types import argument
from gpu_runtime.rendering.calls.xml import XmlScanner, parse_xml
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.thoughts import ThoughtFormat
from gpu_runtime.rendering.tool_formats import XML
from gpu_runtime.rendering.tool_grammars import forced_call, text_then_calls
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.light_tokenizer import LightTokenizer
from support.tiny_tokenizers import build_tokenizer
from support.tool_answers import TOOLS, accepts

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "metric": {"type": "boolean"},
        "near": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "$defs": {"Place": {"type": "object", "properties": {"at": {"type": "number"}}}},
}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
SCHEMAS = {"get_weather": PARAMETERS}
ASK = [{"role": "user", "content": "weather?"}]
ROME = {"city": "5", "days": 3, "metric": True, "near": {"at": 1.5}, "tags": ["a", "b"]}
OSLO = {"city": "</parameter> of\n\n</tool_call> Oslo", "near": None}


def written(**arguments: str) -> str:
    inside = "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items()
    )
    return f"<tool_call>\n<function=get_weather>\n{inside}</function>\n</tool_call>"


CALLS = [
    written(city="5", days="3", metric="True", near='{"at":  1.5}', tags='["a", "b"]'),
    written(city=OSLO["city"], near="null"),
]
THINKING, PLAIN = ("qwen3_5_think", "nemotron_3_nano"), ("qwen3_5_nothink",)


@pytest.fixture(params=THINKING + PLAIN)
async def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Gateway]:
    # Strict: a value may quote what ends it, which vLLM's parser takes for its end
    # (test_tool_parsing.py).
    bounds: dict[str, Any] = {
        "max_tokens": 600,
        "max_context_length": 8192,
        "tool_parsing": "strict",
    }
    async with running_gateway(tmp_path, family=request.param, **bounds) as gateway:
        gateway.inside = "I look.\n</think>\n\n" if request.param in THINKING else ""
        yield gateway


def odd(gateway: Gateway, text: str) -> list[int]:
    """``text`` in ids that encoding it would never make, with the end of the turn."""
    return [
        *(token for letter in text for token in gateway.engine.encode(letter)),
        gateway.engine.end_id,
    ]


async def asked(gateway: Gateway, begun: dict[str, Any], *, stream: bool, **options: Any) -> Any:
    """The message of an answer, by the client's own reading of it."""
    options = {"model": MODEL, "tools": [TOOL], "messages": ASK} | options
    completions = gateway.openai(begun).chat.completions
    if not stream:
        return (await completions.create(**options)).choices[0].message
    async with completions.stream(**options) as events:
        return (await events.get_final_completion()).choices[0].message


def arguments(message: Any) -> list[Any]:
    return [json.loads(call.function.arguments) for call in message.tool_calls or []]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_loop_of_parallel_calls_has_typed_arguments_and_is_one_timeline(
    gateway: Gateway, stream: bool
) -> None:
    begun, messages = await gateway.begin(), list[Any](ASK)
    for said in ("So:\n\n" + "\n".join(CALLS), CALLS[1], "It is sunny."):
        gateway.engine.say(odd(gateway, gateway.inside + said))
        answer = await asked(gateway, begun, stream=stream, messages=messages)
        messages.append(answer.model_dump(exclude_none=True, exclude={"parsed": True}))
        results = [
            {"role": "tool", "tool_call_id": c.id, "content": "sunny"}
            for c in answer.tool_calls or []
        ]
        messages += results
        if said.startswith("So"):
            assert (answer.content, arguments(answer)) == ("So:", [ROME, OSLO])
            assert getattr(answer, "reasoning_content", "") == ("I look." if gateway.inside else "")
    calls = gateway.journal.calls.of_episode(begun["episode_id"])
    assert [each.drift for each in calls] == [None] * 3
    assert sum(len(merge(pieces)) for pieces in agents_of(calls).values()) == 1
    # An agent that strips thoughts and writes the JSON anew continues the same ids.
    for message in messages:
        message.pop("reasoning_content", None)
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.dumps(
                json.loads(call["function"]["arguments"]), indent=1
            )
    gateway.engine.say(odd(gateway, gateway.inside + "Yes."))
    await asked(gateway, begun, stream=False, messages=messages[:-1])
    calls = gateway.journal.calls.of_episode(begun["episode_id"])
    assert calls[-1].drift is None and calls[-1].prompt_ids_P == calls[-2].prompt_ids_P


@pytest.mark.parametrize("stream", [False, True])
async def test_a_forced_call_is_made_outside_of_thoughts_and_continued(
    gateway: Gateway, stream: bool
) -> None:
    begun = await gateway.begin()
    gateway.engine.say(odd(gateway, CALLS[0].removeprefix("<tool_call>\n")))
    answer = await asked(gateway, begun, stream=stream, tool_choice="required")
    assert (answer.content or "", arguments(answer)) == ("", [ROME])
    prompt = gateway.renderer.decode(gateway.engine.requests[0].prompt_ids, special=True)
    assert prompt.endswith("<tool_call>\n") and prompt.count("<think>") == prompt.count("</think>")
    messages = [*ASK, answer.model_dump(exclude_none=True)]
    messages.append({"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": "sunny"})
    await gateway.chat(begun, messages=messages, tools=[TOOL])
    first, second = gateway.journal.calls.of_episode(begun["episode_id"])
    seen = first.prompt_ids_P + first.completions[0].token_ids_T
    read = gateway.renderer.decode(second.prompt_ids_P, special=True)
    # Nemotron's template writes an answer without thoughts as no prompt begins one
    if "<think></think>" in read:
        assert second.drift["cause"] == "template"
    else:
        assert second.drift is None and second.prompt_ids_P[: len(seen)] == seen


async def test_a_strict_call_streams_argument_by_argument_in_anthropics_dialect(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    gateway.engine.say(odd(gateway, gateway.inside + CALLS[0]))
    url, tool = (
        f"http://{gateway.address}",
        {"name": "get_weather", "input_schema": PARAMETERS, "strict": True},
    )
    options = {"model": MODEL, "max_tokens": 500, "tools": [tool], "messages": ASK}
    client = anthropic.AsyncAnthropic(base_url=url, api_key=begun["api_key"], max_retries=0)
    async with client, client.messages.stream(**options) as events:
        pieces = [event.partial_json async for event in events if event.type == "input_json"]
        block = (await events.get_final_message()).content[-1]
    assert (block.type, block.input) == ("tool_use", ROME)
    assert len([piece for piece in pieces if piece]) > 3


async def test_one_call_alone_is_cut_behind_its_own_end(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say(odd(gateway, gateway.inside + "\n".join(reversed(CALLS))))
    assert arguments(await asked(gateway, begun, stream=False, parallel_tool_calls=False)) == [OSLO]
    (recorded,) = gateway.journal.calls.of_episode(begun["episode_id"])
    assert recorded.completions[0].text == gateway.inside + CALLS[1]


@pytest.mark.parametrize("family", ["qwen3_6", "qwen3_8", "nemotron_3_super"])
def test_the_form_is_read_off_the_template(tmp_path: Path, family: str) -> None:
    renderer = Renderer(LightTokenizer(build_tokenizer(tmp_path, family)))
    assert (renderer.tool_format.name, renderer.thoughts.begins_inside) == ("xml", True)
    assert renderer.writes_calls and renderer.writes_many_calls and renderer.writes_results


def test_a_prompt_that_closes_thoughts_says_nothing_else_about_them(tmp_path: Path) -> None:
    renderer = Renderer(LightTokenizer(build_tokenizer(tmp_path, "qwen3"))).with_variables(
        {"enable_thinking": False}
    )
    assert renderer.thoughts == ThoughtFormat("<think>", "</think>")


@pytest.mark.parametrize(
    "text",
    [
        "no call",
        "<tool_call>",
        "<tool_call>\n<function=f",
        "<tool_call>\n<function=f>\n<parameter=a>\n1\n</function>",
        '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
        f"{CALLS[0]} and so on",
        f"{CALLS[0]}\n<tool_call>\n<function=f>",
    ],
)
def test_a_slip_makes_all_of_an_answer_text(text: str) -> None:
    assert parse_xml(text, SCHEMAS) == (text, [])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_stream_of_calls_is_read_as_the_whole(size: int) -> None:
    text = "\n".join([*CALLS, "<tool_call>\n<function=now>\n</function>\n</tool_call>"])
    scanner, names, found = XmlScanner(SCHEMAS), list[str](), list[str]()
    for start in range(0, len(text), size):
        for piece in scanner.feed(text[start : start + size]):
            if piece.name is not None:
                names.append(piece.name)
                found.append("")
            found[piece.index] += piece.arguments
    assert (names, [json.loads(each) for each in found]) == (
        ["get_weather", "get_weather", "now"],
        [ROME, OSLO, {}],
    )
    assert found == [call.arguments for call in parse_xml(text, SCHEMAS)[1]]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "5", "5"),
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, "five", "five"),
        ({"type": "number"}, "5", 5),
        ({"type": "number"}, "1e999", "1e999"),
        ({"type": "number"}, "NaN", "NaN"),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": ["string", "null"]}, "None", None),
        ({"type": ["string", "integer"]}, "5", 5),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"allOf": [{"type": "string"}]}, "1", "1"),
        ({"oneOf": [{"type": "string"}, {"const": 1}]}, "1", 1),
        ({"type": "string"}, ' "quoted" ', ' "quoted" '),
        ({"type": "array"}, '{"a": 1}', '{"a": 1}'),
        ({}, '{"a": [1]}', {"a": [1]}),
        ({}, '"text"', '"text"'),
        ({"$ref": "#/nowhere"}, "[1]", [1]),
        (None, "12", 12),
    ],
)
def test_an_argument_has_the_type_that_its_schema_says(schema: Any, text: str, value: Any) -> None:
    found = argument(
        text, "a", {"type": "object", "properties": {"a": schema} if schema is not None else {}}
    )
    assert (found, type(found)) == (value, type(value))


def test_a_grammar_holds_a_call_to_its_schema() -> None:
    several, single = (forced_call(XML, TOOLS, many=many) for many in (True, False))
    strict = text_then_calls(XML, TOOLS, many=True)
    for city in ("Rome", "Mars"):
        call = f"<function=get_weather>\n<parameter=city>\n{city}\n</parameter>\n</function>\n</tool_call>"
        assert {accepts(several, call), accepts(single, call)} == {city == "Rome"}
        assert accepts(strict, f"So: {XML.prefill}{call}\n{XML.prefill}{call}") == (city == "Rome")
    assert accepts(single, "<function=now>\n</function>\n</tool_call>")
    assert not accepts(single, "<function=get_weather>\n</function>\n</tool_call>")
    assert not accepts(strict, f"{XML.prefill}<function=rm>\n</function>\n</tool_call>")


TEXT, NUMBER = (
    {"type": "object", "properties": {"a": {"type": kind}}} for kind in ("string", "integer")
)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"$ref": "#/$defs/Args", "$defs": {"Args": TEXT}}, "5", "5"),
        (
            {
                "allOf": [{"properties": {"b": {}}}, {"$ref": "#/$defs/Args"}],
                "$defs": {"Args": TEXT},
            },
            "true",
            "true",
        ),
        ({"anyOf": [TEXT, NUMBER]}, "5", 5),
        ({"anyOf": [TEXT, NUMBER]}, "[1]", "[1]"),
        ({"oneOf": [{"additionalProperties": {"type": "string"}}]}, "5", "5"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, '{"a": {}}', {"a": {}}),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "5", "5"),
        ({"$ref": "#"}, "5", 5),
        ({"properties": {"a": {"type": 5}}}, "5", 5),
        ({"properties": {"a": {"type": [{}, "string"]}}}, "5", "5"),
        ({"properties": ["a"], "anyOf": 5, "allOf": []}, "5", 5),
    ],
)
def test_the_root_of_a_schema_may_be_a_reference_or_alternatives(
    schema: Any, text: str, value: Any
) -> None:
    assert argument(text, "a", schema) == value
