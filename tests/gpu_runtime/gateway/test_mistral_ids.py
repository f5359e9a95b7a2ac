"""Calls that the model names itself, [TOOL_CALLS]name[CALL_ID]id[ARGS]: Mistral's own template of
version 11.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anthropic
import pytest

from gpu_runtime.journal.timelines import agents_of, merge
from gpu_runtime.rendering.tool_formats import MISTRAL_IDS
from gpu_runtime.rendering.tool_grammars import forced_call, text_then_calls
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.tool_answers import LISTED, TOOLS, xgrammar

pytest.importorskip("mistral_common", reason="it comes with the engine")

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
ASK = [{"role": "user", "content": "weather?"}]
MARKS = ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]")


@pytest.fixture
async def mistral(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(
        tmp_path, family="mistral_v11", max_tokens=300, max_context_length=4096
    ) as gateway:
        yield gateway


def call(city: str, call_id: str | None) -> tuple[str, ...]:
    named = ("[CALL_ID]", call_id) if call_id else ()
    return ("[TOOL_CALLS]", "get_weather", *named, "[ARGS]", f'{{"city":  "{city}"}}')


def say(gateway: Gateway, *parts: str) -> None:
    """The next answer: marks as their tokens, text in ids that encoding it would never make."""
    encode = gateway.engine.encode
    letters = [
        encode(part) if part in MARKS else [t for letter in part for t in encode(letter)]
        for part in parts
    ]
    gateway.engine.say([*sum(letters, []), gateway.engine.end_id])


async def called(
    gateway: Gateway, begun: dict[str, Any], *, stream: bool, **options: Any
) -> list[tuple[str, str]]:
    """Id and city of each call of an answer, by the client's own reading of it."""
    options = {"model": MODEL, "tools": [TOOL], "messages": ASK} | options
    completions = gateway.openai(begun).chat.completions
    if stream:
        async with completions.stream(**options) as events:
            answer = await events.get_final_completion()
    else:
        answer = await completions.create(**options)
    calls = answer.choices[0].message.tool_calls or []
    return [(each.id, json.loads(each.function.arguments)["city"]) for each in calls]


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_have_the_ids_that_the_model_wrote(mistral: Gateway, stream: bool) -> None:
    begun = await mistral.begin()
    say(mistral, "I look.", *call("Rome", "abcDEF123"), *call("Oslo", "abcDEF124"))
    assert await called(mistral, begun, stream=stream) == [
        ("abcDEF123", "Rome"),
        ("abcDEF124", "Oslo"),
    ]
    # An id that a client could not tell calls apart by, or that the template refuses, is replaced.
    say(
        mistral,
        *call("Rome", "abcDEF123"),
        *call("Oslo", "abcDEF123"),
        *call("Bern", "short"),
        *call("Lima", None),
    )
    (first, *others) = await called(mistral, begun, stream=stream)
    assert first == ("abcDEF123", "Rome")
    assert [city for _, city in others] == ["Oslo", "Bern", "Lima"]
    assert (
        all(len(number) == 9 for number, _ in others)
        and len({first[0], *(number for number, _ in others)}) == 4
    )


async def test_a_tool_loop_is_one_timeline_though_the_model_repeats_its_ids(
    mistral: Gateway,
) -> None:
    begun, messages = await mistral.begin(), list[Any](ASK)
    for parts in (
        call("Rome", "abcDEF123"),
        (*call("Rome", "abcDEF123"), *call("Oslo", "zzzzzzzz9")),
        ("Sunny.",),
    ):
        say(mistral, *parts)
        answer = (await mistral.chat(begun, messages=messages, tools=[TOOL])).choices[0].message
        results = [
            {"role": "tool", "tool_call_id": c.id, "content": "sunny"}
            for c in answer.tool_calls or []
        ]
        messages += [answer.model_dump(exclude_none=True), *results]
    calls = mistral.journal.calls.of_episode(begun["episode_id"])
    assert [each.drift for each in calls] == [None] * 3
    assert sum(len(merge(pieces)) for pieces in agents_of(calls).values()) == 1
    read = mistral.renderer.decode(calls[-1].prompt_ids_P, special=True)
    assert (
        "[CALL_ID]zzzzzzzz9[ARGS]" in read and "[TOOL_RESULTS]zzzzzzzz9[TOOL_CONTENT]sunny" in read
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_a_forced_call_has_its_id(mistral: Gateway, stream: bool) -> None:
    begun = await mistral.begin()
    say(mistral, *call("Rome", "abcDEF123")[1:])
    assert await called(mistral, begun, stream=stream, tool_choice="required") == [
        ("abcDEF123", "Rome")
    ]
    assert mistral.engine.requests[0].options.structural_tag is not None


@pytest.mark.parametrize("stream", [False, True])
async def test_a_strict_tool_of_anthropics_dialect_has_its_id(
    mistral: Gateway, stream: bool
) -> None:
    begun = await mistral.begin()
    say(mistral, *call("Rome", "abcDEF123"))
    url, tool = (
        f"http://{mistral.address}",
        {"name": "get_weather", "input_schema": PARAMETERS, "strict": True},
    )
    options = {"model": MODEL, "max_tokens": 200, "tools": [tool], "messages": ASK}
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key=begun["api_key"], max_retries=0
    ) as client:
        if stream:
            async with client.messages.stream(**options) as events:
                (block,) = (await events.get_final_message()).content
        else:
            (block,) = (await client.messages.create(**options)).content
    assert (block.type, block.id, block.input) == ("tool_use", "abcDEF123", {"city": "Rome"})


def test_a_grammar_leaves_the_model_an_id() -> None:
    first = LISTED.vocab_size
    listed = xgrammar.TokenizerInfo(
        [*LISTED.decoded_vocab, *(mark.encode() for mark in MARKS)], stop_token_ids=[96]
    )
    call_format = replace(
        MISTRAL_IDS, marker_id=first, id_mark_id=first + 1, arguments_mark_id=first + 2
    )

    def takes(tag: str, *parts: str) -> bool:
        matcher = xgrammar.GrammarMatcher(
            xgrammar.GrammarCompiler(listed).compile_structural_tag(tag)
        )
        ids = [
            [first + MARKS.index(p)] if p in MARKS else [ord(letter) - 32 for letter in p]
            for p in parts
        ]
        return all(matcher.accept_token(token) for token in [*sum(ids, []), 96])

    strict, forced = (
        make(call_format, TOOLS, many=False) for make in (text_then_calls, forced_call)
    )
    right = call("Rome", "abcDEF123")
    assert takes(strict, "So: ", *right) and takes(forced, *right[1:])
    for wrong in (call("Mars", "abcDEF123"), call("Rome", "short"), call("Rome", None)):
        assert not takes(strict, *wrong)
