"""Thoughts and calls that a model marks with special tokens: Mistral's own template of Magistral
(version 13).
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from gpu_runtime.journal.timelines import agents_of, merge
from gpu_runtime.rendering.marks import MarkedText
from support.gateway_harness import MODEL, Gateway, running_gateway

pytest.importorskip("mistral_common", reason="it comes with the engine")

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
ASK = [{"role": "user", "content": "weather?"}]
CITY = {"city": "[TOOL_CALLS]Rome[ARGS]"}  # marks that are text of an argument
MARKS = ("[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]")
PARIS = ("[TOOL_CALLS]", "get_weather", "[ARGS]", '{"city": "Paris"}')
ODD = ("[TOOL_CALLS]", "get_weather", "[ARGS]", json.dumps(CITY))
THOUGHT = ("[THINK]", "I look\n it [ARGS] up.", "[/THINK]")


@pytest.fixture
async def magistral(tmp_path: Path) -> AsyncIterator[Gateway]:
    bounds = {"max_tokens": 300, "max_context_length": 4096}
    async with running_gateway(tmp_path, family="magistral_v13", **bounds) as gateway:
        yield gateway


def say(gateway: Gateway, *parts: str) -> None:
    """The next answer: marks as their tokens, text in ids that encoding it would never make."""
    encode = gateway.engine.encode
    letters = [
        encode(part) if part in MARKS else [t for letter in part for t in encode(letter)]
        for part in parts
    ]
    gateway.engine.say([*sum(letters, []), gateway.engine.end_id])


def read(message: Any) -> tuple[str, str, list[Any]]:
    """Thoughts, text and calls of an answer."""
    calls = [
        (call.function.name, json.loads(call.function.arguments))
        for call in message.tool_calls or []
    ]
    return getattr(message, "reasoning_content", None) or "", message.content or "", calls


def calls_of(gateway: Gateway, begun: dict[str, Any]) -> list[Any]:
    return gateway.journal.calls.of_episode(begun["episode_id"])


def timelines(gateway: Gateway, begun: dict[str, Any]) -> int:
    return sum(len(merge(segments)) for segments in agents_of(calls_of(gateway, begun)).values())


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("four",), ("", "four", [])),
        ((*THOUGHT, "four"), ("I look\n it [ARGS] up.", "four", [])),
        (("[THINK]", "never done"), ("never done", "", [])),
        ((*THOUGHT, *PARIS), ("I look\n it [ARGS] up.", "", [("get_weather", {"city": "Paris"})])),
        (
            ("I look. ", *PARIS, *ODD),
            ("", "I look.", [("get_weather", {"city": "Paris"}), ("get_weather", CITY)]),
        ),
        (
            (*THOUGHT, "[TOOL_CALLS]", "get_weather"),
            ("I look\n it [ARGS] up.", "[TOOL_CALLS]get_weather", []),
        ),
    ],
)
async def test_thoughts_text_and_calls_are_apart_whole_and_streamed(
    magistral: Gateway, parts: tuple[str, ...], expected: tuple[str, str, list[Any]]
) -> None:
    begun = await magistral.begin()
    for _ in range(2):
        say(magistral, *parts)
    whole = (await magistral.chat(begun, messages=ASK, tools=[TOOL])).choices[0].message
    assert read(whole) == expected
    thoughts, text, calls = "", "", list[Any]()
    async for chunk in await magistral.chat(begun, messages=ASK, tools=[TOOL], stream=True):
        delta = chunk.choices[0].delta
        thoughts += getattr(delta, "reasoning_content", None) or ""
        text += delta.content or ""
        calls += [
            (call.function.name, json.loads(call.function.arguments))
            for call in delta.tool_calls or []
        ]
    assert (thoughts, text, calls) == expected


@pytest.mark.parametrize("drops_thoughts", [False, True])
async def test_a_tool_loop_is_one_timeline(magistral: Gateway, drops_thoughts: bool) -> None:
    begun, messages = await magistral.begin(), list[Any](ASK)
    for parts in ((*THOUGHT, *PARIS), (*THOUGHT, *ODD, *PARIS), (*THOUGHT, "Sunny.")):
        say(magistral, *parts)
        answer = (await magistral.chat(begun, messages=messages, tools=[TOOL])).choices[0].message
        echo = answer.model_dump(exclude_none=True)
        if drops_thoughts:
            del echo["reasoning_content"]
        results = [
            {"role": "tool", "tool_call_id": c.id, "content": "sunny"}
            for c in answer.tool_calls or []
        ]
        messages += [echo, *results]
    say(magistral, "Warm.")
    await magistral.chat(
        begun, messages=[*messages, {"role": "user", "content": "and Rome?"}], tools=[TOOL]
    )
    assert [call.drift for call in calls_of(magistral, begun)] == [None] * 4
    assert timelines(magistral, begun) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_forced_call_begins_behind_its_special_token(
    magistral: Gateway, stream: bool
) -> None:
    begun = await magistral.begin()
    say(magistral, *PARIS[1:])
    options = {"messages": ASK, "tools": [TOOL], "tool_choice": "required"}
    if stream:
        pieces = [
            c.choices[0].delta.tool_calls or []
            async for c in await magistral.chat(begun, **options, stream=True)
        ]
        name, arguments = (
            pieces[1][0].function.name,
            "".join(p[0].function.arguments for p in pieces if p),
        )
        assert len([p for p in pieces if p]) > 2, "it streams while it is written"
    else:
        function = (
            (await magistral.chat(begun, **options)).choices[0].message.tool_calls[0].function
        )
        name, arguments = function.name, function.arguments
    assert (name, arguments) == ("get_weather", PARIS[-1])
    assert magistral.renderer.decode(
        magistral.engine.requests[0].prompt_ids, special=True
    ).endswith("[TOOL_CALLS]")


async def test_one_call_alone_is_asked_for_by_a_grammar(magistral: Gateway) -> None:
    say(magistral, *THOUGHT, *PARIS)
    options = {"messages": ASK, "tools": [TOOL], "parallel_tool_calls": False}
    answer = (await magistral.chat(await magistral.begin(), **options)).choices[0].message
    assert read(answer)[2] == [("get_weather", {"city": "Paris"})]
    assert magistral.engine.requests[0].options.structural_tag is not None


@pytest.mark.parametrize("stream", [False, True])
async def test_the_other_dialects(magistral: Gateway, stream: bool) -> None:
    begun = await magistral.begin()
    for _ in range(2):
        say(magistral, *THOUGHT, *PARIS)
    responses = magistral.openai(begun).responses
    tool = {"type": "function", "name": "get_weather", "parameters": PARAMETERS}
    answer = await responses.create(model=MODEL, input=ASK, tools=[tool], stream=stream)
    if stream:
        answer = [event async for event in answer][-1].response
    assert [item.type for item in answer.output] == ["reasoning", "function_call"]
    assert answer.output[0].content[0].text == THOUGHT[1]
    url, anthropics = (
        f"http://{magistral.address}",
        {"name": "get_weather", "input_schema": PARAMETERS},
    )
    options = {"model": MODEL, "max_tokens": 300, "tools": [anthropics], "messages": ASK}
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key=begun["api_key"], max_retries=0
    ) as client:
        if stream:
            async with client.messages.stream(**options) as events:
                blocks = (await events.get_final_message()).content
        else:
            blocks = (await client.messages.create(**options)).content
    assert [block.type for block in blocks] == ["thinking", "tool_use"]
    assert (blocks[0].thinking, blocks[1].input) == (THOUGHT[1], {"city": "Paris"})


def test_marks_stand_where_they_were_sampled_however_late_the_text_comes() -> None:
    """An engine holds back text that may become a stop string, and drops what follows one."""
    words = {1: "a", 2: "b", 3: "c"}
    text = MarkedText(
        {7: "[M]", 8: "[N]"}, lambda ids: "".join(words.get(token, "") for token in ids)
    )
    assert text.feed("", [7, 1]) == "[M]"
    assert text.feed("a", [8, 2]) == "a[N]"
    assert text.feed("", [7, 3]) == ""
    assert text.feed("b", []) == "b[M]"
