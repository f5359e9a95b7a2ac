"""Answers in channels between special tokens: harmony, by the template that GPT-OSS has."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from gpu_runtime.journal.timelines import agents_of, merge
from gpu_runtime.rendering.harmony import MARKS
from gpu_runtime.rendering.tool_grammars import final_grammar, harmony_answer, harmony_call
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.tool_answers import CITIES, TOOLS, xgrammar

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITIES}}
ASK = [{"role": "user", "content": "weather?"}]
THINK = (
    "<|channel|>",
    "analysis",
    "<|message|>",
    "I look\n it <|end|> up.",
    "<|end|>",
    "<|start|>",
    "assistant",
)
THOUGHT = THINK[3]
ASIDE = (
    "<|channel|>",
    "commentary",
    "<|message|>",
    "Let me see.",
    "<|end|>",
    "<|start|>",
    "assistant",
)
FINAL = ("<|channel|>", "final", "<|message|>", "Sunny.", "<|return|>")
TO = "commentary to=functions.get_weather "
CALL = ("<|channel|>", TO, "<|constrain|>", "json", "<|message|>", '{"city":  "Rome"}', "<|call|>")
# As the template writes it, which a model may do too.
HEADED = (
    " to=functions.get_weather",
    "<|channel|>",
    "commentary json",
    "<|message|>",
    '{"city": "Rome"}',
    "<|call|>",
)
ROME = [("get_weather", {"city": "Rome"})]


@pytest.fixture
async def gptoss(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(
        tmp_path, family="gptoss", max_tokens=400, max_context_length=8192
    ) as gateway:
        yield gateway


def say(gateway: Gateway, *parts: str) -> None:
    """The next answer: marks as their tokens, text in ids that encoding it would never make."""
    encode = gateway.engine.encode
    letters = [
        encode(part) if part in MARKS else [t for letter in part for t in encode(letter)]
        for part in parts
    ]
    gateway.engine.say(sum(letters, []))


def read(message: Any) -> tuple[str, str, list[Any]]:
    """Thoughts, text and calls of an answer."""
    calls = [
        (call.function.name, json.loads(call.function.arguments))
        for call in message.tool_calls or []
    ]
    return getattr(message, "reasoning_content", None) or "", message.content or "", calls


async def read_stream(chunks: Any) -> tuple[str, str, list[Any]]:
    thoughts, text, calls = "", "", list[list[str]]()
    async for chunk in chunks:
        delta = chunk.choices[0].delta
        thoughts += getattr(delta, "reasoning_content", None) or ""
        text += delta.content or ""
        for call in delta.tool_calls or []:
            if call.id:
                calls.append([call.function.name, ""])
            calls[-1][1] += call.function.arguments
    return thoughts, text, [(name, json.loads(arguments)) for name, arguments in calls]


def calls_of(gateway: Gateway, begun: dict[str, Any]) -> list[Any]:
    return gateway.journal.calls.of_episode(begun["episode_id"])


def timelines(gateway: Gateway, begun: dict[str, Any]) -> int:
    return sum(len(merge(segments)) for segments in agents_of(calls_of(gateway, begun)).values())


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (FINAL, ("", "Sunny.", [])),
        ((*THINK, *FINAL), (THOUGHT, "Sunny.", [])),
        ((*THINK, *CALL), (THOUGHT, "", ROME)),
        ((*THINK, *HEADED), (THOUGHT, "", ROME)),
        ((*THINK, *ASIDE, *THINK, *CALL), (f"{THOUGHT}\n{THOUGHT}", "Let me see.", ROME)),
        ((*ASIDE, *FINAL), ("", "Let me see.\nSunny.", [])),
        (THINK[:4], (THOUGHT, "", [])),
        ((*THINK, *CALL[:-2], '{"city"'), (THOUGHT, 'commentary to=functions.get_weather json{"city"', [])),
        ((*THINK, *CALL[:-2], '{"city"', "<|call|>"), (THOUGHT, 'commentary to=functions.get_weather json{"city"', [])),
        ((*FINAL[:-1], "<|end|>", "<|start|>", "assistant", *THINK), ("", f"Sunny.\nanalysis{THOUGHT}assistant", [])),
        ((*CALL[:1], TO.replace("functions.", "browser."), *CALL[2:]),
         ("", 'commentary to=browser.get_weather json{"city":  "Rome"}', [])),
        (("four", "<|return|>"), ("", "four", [])),
        (("<|channel|>", "final", "<|return|>"), ("", "final", [])),
    ],
)  # fmt: skip
async def test_channels_are_apart_whole_and_streamed(
    gptoss: Gateway, parts: tuple[str, ...], expected: tuple[str, str, list[Any]]
) -> None:
    begun = await gptoss.begin()
    for _ in range(2):
        say(gptoss, *parts)
    whole = (await gptoss.chat(begun, messages=ASK, tools=[TOOL])).choices[0]
    assert read(whole.message) == expected
    assert whole.finish_reason == (
        "tool_calls" if expected[2] else "stop" if parts[-1] in MARKS else "length"
    )
    assert (
        await read_stream(await gptoss.chat(begun, messages=ASK, tools=[TOOL], stream=True))
        == expected
    )


async def test_a_call_ends_the_answer_though_the_tokenizer_has_another_end(gptoss: Gateway) -> None:
    say(gptoss, *CALL, "<|start|>", "functions.get_weather to=assistant", "<|return|>")
    begun = await gptoss.begin()
    await gptoss.chat(begun, messages=ASK, tools=[TOOL])
    (call,) = calls_of(gptoss, begun)
    assert gptoss.renderer.decode(call.completions[0].token_ids_T[-1:], special=True) == "<|call|>"


async def test_without_tools_a_call_is_text(gptoss: Gateway) -> None:
    say(gptoss, *CALL)
    message = (await gptoss.chat(await gptoss.begin(), messages=ASK)).choices[0].message
    assert read(message) == ("", f'{TO}json{{"city":  "Rome"}}', [])


@pytest.mark.parametrize("drops_thoughts", [False, True])
async def test_a_tool_loop_is_one_timeline(gptoss: Gateway, drops_thoughts: bool) -> None:
    """Thoughts without the letters of a mark: in a template's text these are the mark."""
    begun, messages, thought = (
        await gptoss.begin(),
        list[Any](ASK),
        (*THINK[:3], "I look\n it up.", *THINK[4:]),
    )
    for parts in ((*thought, *CALL), (*thought, *ASIDE, *HEADED), CALL, (*thought, *FINAL)):
        say(gptoss, *parts)
        answer = (await gptoss.chat(begun, messages=messages, tools=[TOOL])).choices[0].message
        echo = answer.model_dump(exclude_none=True)
        if drops_thoughts:
            echo.pop("reasoning_content", None)
        results = [
            {"role": "tool", "tool_call_id": c.id, "content": "sunny"}
            for c in answer.tool_calls or []
        ]
        messages += [echo, *results]
    assert [call.drift for call in calls_of(gptoss, begun)] == [None] * 4
    assert timelines(gptoss, begun) == 1
    # The template leaves thoughts out of the history as soon as there is a final answer.
    say(gptoss, *FINAL)
    await gptoss.chat(
        begun, messages=[*messages, {"role": "user", "content": "and Oslo?"}], tools=[TOOL]
    )
    drift = calls_of(gptoss, begun)[-1].drift
    assert (drift["cause"], timelines(gptoss, begun)) == ("template", 2)


async def test_an_end_that_the_template_writes_otherwise_is_its_doing(gptoss: Gateway) -> None:
    begun = await gptoss.begin()
    for _ in range(2):
        say(gptoss, *FINAL)
    await gptoss.chat(begun, messages=ASK)
    history = [
        *ASK,
        {"role": "assistant", "content": "Sunny."},
        {"role": "user", "content": "thanks"},
    ]
    await gptoss.chat(begun, messages=history)
    drift = calls_of(gptoss, begun)[1].drift
    assert (drift["cause"], drift["message"]) == ("template", 1)
    assert drift["saw"].endswith("<|return|>") and "Sunny.<|end|>" in drift["renders"]
    assert timelines(gptoss, begun) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_forced_call_begins_with_its_recipient(gptoss: Gateway, stream: bool) -> None:
    begun = await gptoss.begin()
    say(gptoss, "get_weather", *HEADED[1:])
    options = {"messages": ASK, "tools": [TOOL], "tool_choice": "required", "stream": stream}
    answer = await gptoss.chat(begun, **options)
    found = await read_stream(answer) if stream else read(answer.choices[0].message)
    assert found == ("", "", ROME)
    (call,) = calls_of(gptoss, begun)
    assert gptoss.renderer.decode(call.prompt_ids_P, special=True).endswith(
        "<|start|>assistant to=functions."
    )
    assert gptoss.engine.requests[0].options.structural_tag is not None
    call_id = call.completions[0].message["tool_calls"][0]["id"]
    echo = {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}]}  # fmt: skip
    say(gptoss, *FINAL)
    messages = [*ASK, echo, {"role": "tool", "tool_call_id": call_id, "content": "sunny"}]
    await gptoss.chat(begun, messages=messages, tools=[TOOL])
    assert (calls_of(gptoss, begun)[1].drift, timelines(gptoss, begun)) == (None, 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_other_dialects(gptoss: Gateway, stream: bool) -> None:
    begun = await gptoss.begin()
    for _ in range(2):
        say(gptoss, *THINK, *ASIDE, *CALL)
    responses = gptoss.openai(begun).responses
    tool = {"type": "function", "name": "get_weather", "parameters": CITIES}
    answer = await responses.create(model=MODEL, input=ASK, tools=[tool], stream=stream)
    if stream:
        answer = [event async for event in answer][-1].response
    assert [item.type for item in answer.output] == ["reasoning", "message", "function_call"]
    assert answer.output[0].content[0].text == THOUGHT
    url, anthropics = f"http://{gptoss.address}", {"name": "get_weather", "input_schema": CITIES}
    options = {"model": MODEL, "max_tokens": 300, "tools": [anthropics], "messages": ASK}
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key=begun["api_key"], max_retries=0
    ) as client:
        if stream:
            async with client.messages.stream(**options) as events:
                blocks = (await events.get_final_message()).content
        else:
            blocks = (await client.messages.create(**options)).content
    assert [block.type for block in blocks] == ["thinking", "text", "tool_use"]
    assert (blocks[0].thinking, blocks[1].text, blocks[2].input) == (
        THOUGHT,
        "Let me see.",
        {"city": "Rome"},
    )


async def test_effort_is_one_of_the_levels_that_the_model_has(gptoss: Gateway) -> None:
    begun = await gptoss.begin()
    say(gptoss, *FINAL)
    await gptoss.chat(begun, messages=ASK, reasoning_effort="low")
    assert "Reasoning: low" in gptoss.renderer.decode(gptoss.engine.requests[0].prompt_ids)
    refused = await gptoss.raw_chat(begun["api_key"], messages=ASK, reasoning_effort="minimal")
    assert refused.status_code == 400 and "low, medium, high" in refused.json()["error"]["message"]


# Grammars, by the engine's own code.

LETTERS = [*map(chr, range(32, 127)), "\n"]
STOPS = [len(LETTERS) + MARKS.index(mark) for mark in ("<|return|>", "<|call|>")]
LISTED = xgrammar.TokenizerInfo([*LETTERS, *MARKS], stop_token_ids=STOPS[:1])
YES = {"type": "object", "properties": {"answer": {"enum": ["yes", "no"]}}, "required": ["answer"]}


def takes(tag: str, *parts: str) -> bool:
    """Whether an answer of ``parts`` follows ``tag`` to its end. The engine tells a grammar all
    tokens that stop.
    """
    compiled = xgrammar.GrammarCompiler(LISTED).compile_structural_tag(tag)
    matcher = xgrammar.GrammarMatcher(compiled, override_stop_tokens=STOPS)
    tokens = [
        [len(LETTERS) + MARKS.index(p)] if p in MARKS else [LETTERS.index(c) for c in p]
        for p in parts
    ]
    return all(matcher.accept_token(token) for token in sum(tokens, [])) and matcher.is_terminated()


def test_strict_tools_and_formats_are_grammars_of_channels(gptoss: Gateway) -> None:
    harmony = gptoss.renderer.harmony
    assert harmony is not None
    listed = type(harmony)({mark: len(LETTERS) + number for number, mark in enumerate(MARKS)})
    mars = tuple(part.replace("Rome", "Mars") for part in CALL)
    thought = tuple(part.replace(" <|end|>", "") for part in THINK)
    strict = harmony_answer(listed, TOOLS, None)
    for right in (FINAL, (*thought, *FINAL), (*thought, *ASIDE, *CALL), HEADED, CALL):
        assert takes(strict, *right)
    for wrong in (mars, ("Sunny.",), (*FINAL, *CALL), (*CALL, *FINAL), ("<|return|>",)):
        assert not takes(strict, *wrong)
    forced = harmony_call(listed, TOOLS)
    assert takes(forced, "get_weather", *HEADED[1:]) and not takes(forced, "rm", *HEADED[1:])
    form = harmony_answer(listed, [], final_grammar(json.dumps(YES), None))
    assert takes(form, *thought, *FINAL[:3], '{"answer": "yes"}', "<|return|>")
    assert not takes(form, *FINAL) and not takes(form, *CALL)


async def test_a_format_stands_in_the_final_channel_beside_tools_too(gptoss: Gateway) -> None:
    begun = await gptoss.begin()
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": YES}}
    for tools in ({}, {"tools": [TOOL]}):
        say(gptoss, *THINK, *FINAL[:3], '{"answer": "yes"}', "<|return|>")
        answer = await gptoss.chat(begun, messages=ASK, response_format=form, **tools)
        assert read(answer.choices[0].message) == (THOUGHT, '{"answer": "yes"}', [])
        assert "final" in str(gptoss.engine.requests[-1].options.structural_tag)
    strict = {"type": "function", "function": TOOL["function"] | {"strict": True}}
    for stream in (False, True):
        say(gptoss, *THINK, *ASIDE, *CALL)
        answer = await gptoss.chat(begun, messages=ASK, tools=[strict], stream=stream)
        found = await read_stream(answer) if stream else read(answer.choices[0].message)
        assert found == (THOUGHT, "Let me see.", ROME)
