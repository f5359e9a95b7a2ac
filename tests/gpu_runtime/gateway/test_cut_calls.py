"""Calls that are cut short or named as no call can be: the answer is kept, and the conversation
goes on.
"""

import json
from pathlib import Path
from typing import Any

import anthropic
import pytest

from gpu_runtime.rendering.calls.gemma import parse_gemma
from gpu_runtime.rendering.calls.xml import XmlScanner, parse_xml
from gpu_runtime.rendering.tool_formats import (
    GEMMA,
    HERMES,
    LLAMA3,
    MISTRAL_ARGS,
    SMOLLM2,
    XML,
    ToolFormat,
)
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.tiny_tokenizers import GEMMA4

PLACE = {"type": "object", "properties": {"at": {"type": "array", "items": {"type": "number"}}}}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}, "near": PLACE}}
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "It.", "parameters": PARAMETERS},
}
ASK = [{"role": "user", "content": "weather?"}]
XML_CALL = "<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n"
GEMMA_CALL = ("call:get_weather{city:", '<|"|>', "Rome", '<|"|>')
CUT = [
    ("qwen3_5_think", [XML_CALL + "<parameter=near>\n{"], {"city": "Rome"}),
    ("nemotron_3_nano", ["<function=get_weather>\n<param"], {}),
    ("gemma4_v5", [*GEMMA_CALL, ",near:"], {"city": "Rome"}),
    ("gemma4_v5", [*GEMMA_CALL, ",near:{at:[1,2"], {"city": "Rome", "near": {"at": [1]}}),
    ("gemma4_v5", [*GEMMA_CALL[:2], "Ro"], {}),
]


def say_cut(gateway: Gateway, parts: list[str]) -> None:
    """The next answer ends with ``parts``, where max_tokens has it end; marks are their tokens."""
    encode = gateway.engine.encode
    letters = [
        encode(part) if part in GEMMA4 else [t for letter in part for t in encode(letter)]
        for part in parts
    ]
    gateway.engine.say(sum(letters, []))


@pytest.mark.parametrize(("family", "parts", "kept"), CUT)
async def test_a_call_that_is_cut_has_what_is_whole_and_is_continued(
    tmp_path: Path, family: str, parts: list[str], kept: dict[str, Any]
) -> None:
    async with running_gateway(
        tmp_path, family=family, max_tokens=300, max_context_length=4096
    ) as gateway:
        begun = await gateway.begin()
        options = {"messages": ASK, "tools": [TOOL], "tool_choice": "required"}
        say_cut(gateway, parts)
        choice = (await gateway.chat(begun, **options)).choices[0]
        (call,) = choice.message.tool_calls
        assert (json.loads(call.function.arguments), choice.finish_reason) == (kept, "length")
        say_cut(gateway, parts)
        streamed = ""
        async for chunk in await gateway.openai(begun).chat.completions.create(
            model=MODEL, stream=True, **options
        ):
            for more in chunk.choices[0].delta.tool_calls or []:
                streamed += more.function.arguments
        assert streamed == call.function.arguments
        result = {"role": "tool", "tool_call_id": call.id, "content": "sun"}
        echo = {"role": "assistant", "tool_calls": [call.model_dump(exclude_none=True)]}
        again = await gateway.raw_chat(
            begun["api_key"], messages=[*ASK, echo, result], tools=[TOOL]
        )
        assert again.status_code == 200, again.text


async def test_the_other_dialects_stream_a_cut_call_as_an_object_too(tmp_path: Path) -> None:
    async with running_gateway(
        tmp_path, family="qwen3_5_think", max_tokens=300, max_context_length=4096
    ) as gateway:
        begun, options = await gateway.begin(), {"name": "get_weather"}
        say_cut(gateway, [XML_CALL + "<parameter=near>"])
        tool = options | {"type": "function", "parameters": PARAMETERS, "strict": False}
        async with gateway.openai(begun).responses.stream(
            model=MODEL, input="weather?", tools=[tool], tool_choice="required"
        ) as events:
            pieces = [
                e.delta async for e in events if e.type == "response.function_call_arguments.delta"
            ]
        assert json.loads("".join(pieces)) == {"city": "Rome"}
        say_cut(gateway, [XML_CALL + "<parameter=near>"])
        client = anthropic.AsyncAnthropic(
            base_url=f"http://{gateway.address}", api_key=begun["api_key"], max_retries=0
        )
        async with client, client.messages.stream(
            model=MODEL, max_tokens=300, messages=ASK, tool_choice={"type": "any"},
            tools=[options | {"input_schema": PARAMETERS}],
        ) as events:  # fmt: skip
            found = [event.partial_json async for event in events if event.type == "input_json"]
        assert json.loads("".join(found)) == {"city": "Rome"}


LONG = "f" * 300


@pytest.mark.parametrize("name", [" ", LONG])
async def test_a_call_under_no_possible_name_is_text_and_is_kept(tmp_path: Path, name: str) -> None:
    async with running_gateway(
        tmp_path, family="qwen3_5_nothink", max_tokens=900, max_context_length=4096
    ) as gateway:
        begun, text = (
            await gateway.begin(),
            f"<tool_call>\n<function={name}>\n</function>\n</tool_call>",
        )
        say_cut(gateway, [text])
        message = (await gateway.chat(begun, messages=ASK, tools=[TOOL])).choices[0].message
        assert (message.content, message.tool_calls) == (text, None)
        assert len(gateway.journal.calls.of_episode(begun["episode_id"])) == 1


@pytest.mark.parametrize(
    ("call_format", "text"),
    [
        (XML, "<tool_call>\n<function={}>\n</function>\n</tool_call>"),
        (GEMMA, "<|tool_call>call:{}{{}}<tool_call|>"),
        (HERMES, '<tool_call>{{"name": "{}", "arguments": {{}}}}</tool_call>'),
        (SMOLLM2, '<tool_call>[{{"name": "{}", "arguments": {{}}}}]</tool_call>'),
        (MISTRAL_ARGS, "[TOOL_CALLS]{}[ARGS]{{}}"),
        (LLAMA3, '{{"name": "{}", "parameters": {{}}}}'),
    ],
)
def test_a_name_is_as_long_as_a_message_can_give_back(call_format: ToolFormat, text: str) -> None:
    assert [len(call.name) for call in call_format.read(text.format(LONG[:256]))[1]] == [256]
    for wrong in (LONG[:257], ""):
        assert call_format.read(text.format(wrong)) == (text.format(wrong), [])


def test_of_an_argument_that_is_given_twice_the_first_counts() -> None:
    inside = "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n"
        for name, value in (("a", 1), ("b", 2), ("a", 3))
    )
    text = f"<tool_call>\n<function=f>\n{inside}</function>\n</tool_call>"
    streamed = "".join(piece.arguments for piece in XmlScanner({}).feed(text))
    assert streamed == parse_xml(text, {})[1][0].arguments == '{"a": 1, "b": 2}'


@pytest.mark.parametrize("call_format", [HERMES, SMOLLM2])
def test_what_ends_a_call_may_be_text_of_its_argument(call_format: ToolFormat) -> None:
    value = {"code": "a </tool_call> b <tool_call> c"}
    one = json.dumps({"name": "f", "arguments": value})
    one = f"[{one}]" if call_format is SMOLLM2 else one
    text = f"So: <tool_call>\n{one}\n</tool_call>"
    content, (call,) = call_format.read(text)
    assert (content, json.loads(call.arguments)) == ("So:", value)
    assert call_format.read(f"<tool_call>{one} so</tool_call>")[1] == []
    if call_format is HERMES:
        assert call_format.first_call_end(f"{text}\n{text}") == len(text)
        assert len(call_format.read(f"{text}\n{text}")[1]) == 2


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
def test_a_number_that_json_does_not_have_makes_an_answer_text(number: str) -> None:
    hermes = f'<tool_call>{{"name": "f", "arguments": {{"a": {number}}}}}</tool_call>'
    mistral = f'[TOOL_CALLS]f[ARGS]{{"a": {number}}}'
    assert HERMES.read(hermes) == (hermes, []) and MISTRAL_ARGS.read(mistral) == (mistral, [])
    gemma = f"<|tool_call>call:f{{a:{number}}}<tool_call|>"
    assert parse_gemma(gemma) == (gemma, [])
