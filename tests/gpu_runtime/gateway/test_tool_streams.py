"""Strict tools are called as their schema says, and calls that a grammar vouches for stream while
they are written.
"""

import json
from dataclasses import replace
from typing import Any

import anthropic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runtime.rendering.answer_parser import CallScanner
from gpu_runtime.rendering.tool_formats import HERMES, LLAMA3, MISTRAL, MISTRAL_ARGS, ToolFormat
from gpu_runtime.rendering.tool_grammars import text_then_calls
from support.gateway_harness import Gateway, running_gateway
from support.generated import any_speed
from support.tool_answers import CITIES, LISTED, TOOLS, accepts, weather, xgrammar

STRICT = [{"type": "function", "function": tool["function"] | {"strict": True}} for tool in TOOLS]
NAMED = {"type": "function", "function": {"name": "get_weather"}}
ASK = [{"role": "user", "content": "weather?"}]


def hermes(*cities: str) -> str:
    return "\n".join(f"<tool_call>\n{weather(city)}\n</tool_call>" for city in cities)


@pytest.mark.parametrize("call_format", [HERMES, LLAMA3])
def test_a_strict_tool_is_called_as_its_schema_requires_or_not_at_all(
    call_format: ToolFormat,
) -> None:
    several, single = (text_then_calls(call_format, TOOLS, many=many) for many in (True, False))
    call = f"{call_format.prefill}{weather('Rome', call_format.arguments_key)}{call_format.list_frame[1]}"
    for right in ("", "It is sunny.", "a < b { c }", call):
        assert accepts(several, right)
        assert accepts(single, right)
    for wrong in (
        call.replace("Rome", "Mars"),
        call.replace("get_weather", "rm"),
        call[:-1],
        call_format.marker,
    ):
        assert not accepts(several, wrong)
    if call_format is HERMES:
        assert accepts(several, f"I look: {call}")
        assert accepts(several, f"{call}\n{call}")
        assert not accepts(single, f"{call}\n{call}")


def test_a_strict_tool_is_held_to_its_schema_after_a_special_token_too() -> None:
    mark = LISTED.vocab_size
    listed = xgrammar.TokenizerInfo([*LISTED.decoded_vocab, b"[TOOL_CALLS]"], stop_token_ids=[96])
    call_format = ToolFormat(**{**vars(MISTRAL), "list_frame": ("[", "]"), "marker_id": mark})
    tag = text_then_calls(call_format, TOOLS, many=True)
    compiled = xgrammar.GrammarCompiler(listed).compile_structural_tag(tag)

    def takes(*ids: int) -> bool:
        matcher = xgrammar.GrammarMatcher(compiled)
        return all(matcher.accept_token(token) for token in (*ids, 96))

    def spell(text: str) -> list[int]:
        return [ord(letter) - 32 for letter in text]

    assert takes(*spell("[1] is no call"))
    assert takes(*spell("so: "), mark, *spell(f"[{weather('Rome')}, {weather('Oslo')}]"))
    for wrong in ("", "no", f"[{weather('Mars')}]", f"[{weather('Rome')}"):
        assert not takes(mark, *spell(wrong))


def test_a_call_with_two_special_tokens_is_held_to_its_schema() -> None:
    call, args = LISTED.vocab_size, LISTED.vocab_size + 1
    listed = xgrammar.TokenizerInfo(
        [*LISTED.decoded_vocab, b"[TOOL_CALLS]", b"[ARGS]"], stop_token_ids=[96]
    )
    call_format = replace(MISTRAL_ARGS, marker_id=call, arguments_mark_id=args)

    def takes(*parts: int | str, many: bool) -> bool:
        tag = text_then_calls(call_format, TOOLS, many=many)
        matcher = xgrammar.GrammarMatcher(
            xgrammar.GrammarCompiler(listed).compile_structural_tag(tag)
        )
        ids = [
            [part] if isinstance(part, int) else [ord(letter) - 32 for letter in part]
            for part in parts
        ]
        return all(matcher.accept_token(token) for token in [*sum(ids, []), 96])

    rome, mars = (
        [call, "get_weather", args, '{"city": "Rome"}'],
        [call, "get_weather", args, '{"city": "Mars"}'],
    )
    for many in (False, True):
        assert takes("It is sunny.", many=many)
        assert takes("So: ", *rome, many=many)
        assert takes(*rome, *rome, many=many) == many
        assert not takes(*mars, many=many)
        assert not takes(call, "rm", args, "{}", many=many)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(), v, max_size=4),
    max_leaves=12,
)


@pytest.mark.system
@settings(any_speed, max_examples=40)
@given(
    calls=st.lists(
        st.tuples(st.text(min_size=1), st.dictionaries(st.text(), VALUES)), min_size=1, max_size=3
    ),
    cuts=st.lists(st.integers(0, 400), max_size=20),
    between=st.sampled_from([", ", "\n</tool_call>\n<tool_call>\n", "[TOOL_CALLS]"]),
    is_ascii=st.booleans(),
)
def test_calls_are_read_the_same_however_their_text_is_cut(
    calls, cuts, between: str, is_ascii: bool
) -> None:
    is_mistrals = between == "[TOOL_CALLS]"
    if is_mistrals:
        calls = [(f"tool_{number}", arguments) for number, (_, arguments) in enumerate(calls)]
    written = [json.dumps(arguments, ensure_ascii=is_ascii) for _, arguments in calls]
    bodies = [
        f'{{"name": {json.dumps(name, ensure_ascii=is_ascii)}, "arguments": {text}}}'
        for (name, _), text in zip(calls, written, strict=True)
    ]
    text = f"[{between.join(bodies)}]"
    if is_mistrals:
        pairs = zip(calls, written, strict=True)
        text = "".join(f"[TOOL_CALLS]{name}[ARGS]{arguments}" for (name, _), arguments in pairs)
    scanner, names, arguments = CallScanner(MISTRAL_ARGS if is_mistrals else HERMES), [], []
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in zip(edges, edges[1:], strict=False):
        for piece in scanner.feed(text[start:end]):
            if piece.name is not None:
                names.append(piece.name)
                arguments.append("")
            assert piece.index == len(names) - 1
            arguments[-1] += piece.arguments
    assert names == [name for name, _ in calls]
    assert arguments == written


# Through the gateway, with the clients' own reading of a stream.


async def streamed(
    gateway: Gateway, begun: dict[str, Any], **options: Any
) -> tuple[str, list[dict[str, Any]], str]:
    """The text, the calls with the pieces of their arguments, and the finish reason of a streamed
    answer.
    """
    text, calls, reason = "", [], None
    async for chunk in await gateway.openai(begun).chat.completions.create(
        model="tiny-model", messages=ASK, stream=True, **options
    ):
        delta = chunk.choices[0].delta
        text, reason = text + (delta.content or ""), chunk.choices[0].finish_reason or reason
        for call in delta.tool_calls or []:
            if call.id:
                calls.append({"id": call.id, "name": call.function.name, "pieces": []})
            assert call.index == len(calls) - 1
            calls[-1]["pieces"].append(call.function.arguments)
    return text, calls, reason


@pytest.mark.parametrize(
    ("family", "said", "options"),
    [
        ("chatml", f"I look.\n{hermes('Rome', 'Oslo')}", {"tools": STRICT}),
        ("chatml", weather("Rome"), {"tools": TOOLS, "tool_choice": "required"}),
        ("chatml", weather("Rome"), {"tools": TOOLS, "tool_choice": NAMED}),
        ("llama3", weather("Rome", "parameters"), {"tools": STRICT}),
        (
            "mistral",
            f"I look.[TOOL_CALLS] [{weather('Rome')}, {weather('Oslo')}]",
            {"tools": STRICT},
        ),
        ("mistral", f" [{weather('Rome')}]", {"tools": TOOLS, "tool_choice": "required"}),
    ],
)
async def test_arguments_stream_while_they_are_written(
    tmp_path, family: str, said: str, options
) -> None:
    async with running_gateway(
        tmp_path, family=family, max_tokens=300, max_context_length=2048
    ) as gateway:
        begun = await gateway.begin()
        gateway.engine.say(said, said)
        text, calls, reason = await streamed(gateway, begun, **options)
        answer = await gateway.chat(begun, messages=ASK, **options)
        whole = answer.choices[0].message
        assert text == (whole.content or "") == ("I look." if "I look." in said else "")
        assert [call["name"] for call in calls] == [call.function.name for call in whole.tool_calls]
        assert ["".join(call["pieces"]) for call in calls] == [
            call.function.arguments for call in whole.tool_calls
        ]
        assert all(len(call["pieces"]) > 3 for call in calls), "piece by piece"
        assert {json.loads(call.function.arguments)["city"] for call in whole.tool_calls} <= {
            "Rome",
            "Oslo",
        }
        assert reason == answer.choices[0].finish_reason
        assert (
            gateway.engine.requests[0].options.structural_tag
            == gateway.engine.requests[1].options.structural_tag
        )


async def test_tools_that_are_not_strict_are_called_as_the_model_likes(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say(hermes("Mars"), hermes("Mars")[:-15])
    text, (call,), reason = await streamed(gateway, begun, tools=TOOLS, max_tokens=200)
    assert (text, json.loads("".join(call["pieces"])), reason) == (
        "",
        {"city": "Mars"},
        "tool_calls",
    )
    assert gateway.engine.requests[0].options.structural_tag is None
    assert await streamed(gateway, begun, tools=TOOLS, max_tokens=200) == (
        hermes("Mars")[:-15],
        [],
        "stop",
    )


async def test_beside_a_strict_tool_the_others_take_any_object(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say("no")
    await gateway.chat(begun, messages=ASK, tools=[STRICT[0], TOOLS[1]])
    tag = gateway.engine.requests[0].options.structural_tag
    now = '<tool_call>\n{"name": "now", "arguments": {"zone": 1}}\n</tool_call>'
    assert accepts(tag, now)
    assert accepts(tag, hermes("Rome"))
    assert not accepts(tag, hermes("Mars"))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_that_is_cut_short_keeps_what_it_has(gateway: Gateway, stream: bool) -> None:
    begun = await gateway.begin()
    whole = hermes("Rome")
    gateway.engine.say(gateway.engine.encode(whole)[:-14])
    if stream:
        text, (call,), reason = await streamed(gateway, begun, tools=STRICT, max_tokens=200)
        arguments = "".join(call["pieces"])
    else:
        answer = await gateway.chat(begun, messages=ASK, tools=STRICT, max_tokens=200)
        message, reason = answer.choices[0].message, answer.choices[0].finish_reason
        text, arguments = message.content or "", message.tool_calls[0].function.arguments
    assert (text, reason) == ("", "length")
    assert '{"city": "Rome"}'.startswith(arguments) and 0 < len(arguments) < len('{"city": "Rome"}')
    # No template can write half a call as it was sampled: the conversation goes on in a timeline of
    # its own.
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": arguments},
    }
    turns = [
        *ASK,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "user", "content": "go on"},
    ]
    await gateway.chat(begun, messages=turns, tools=STRICT, max_tokens=20)
    drift = gateway.journal.calls.of_episode(begun["episode_id"])[1].drift
    assert (drift["reason"], drift["message"]) == ("the template rewrites the answer", 1)


async def test_a_call_marked_by_a_special_token_is_never_shown_as_text(tmp_path) -> None:
    async with running_gateway(
        tmp_path, family="mistral", max_tokens=300, max_context_length=2048
    ) as gateway:
        begun = await gateway.begin()
        gateway.engine.say(f"I look.[TOOL_CALLS] [{weather('Rome')}]")
        text, (call,), reason = await streamed(gateway, begun, tools=TOOLS)
        assert (text, reason, json.loads(call["pieces"][0])) == (
            "I look.",
            "tool_calls",
            {"city": "Rome"},
        )


async def test_responses_stream_arguments_and_end_each_item_before_the_next(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    gateway.engine.say(f"I look.\n{hermes('Rome', 'Oslo')}")
    tool = {"type": "function", "name": "get_weather", "parameters": CITIES, "strict": True}
    kinds, streamed_text = [], {}
    async with gateway.openai(begun).responses.stream(
        model="tiny-model", input="weather?", tools=[tool], max_output_tokens=300
    ) as events:
        async for event in events:
            if event.type == "response.function_call_arguments.delta":
                streamed_text[event.output_index] = (
                    streamed_text.get(event.output_index, "") + event.delta
                )
            if not kinds or kinds[-1] != event.type:
                kinds.append(event.type.removeprefix("response."))
        final = await events.get_final_response()
    item = [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    begun_text = ["output_item.added", "content_part.added", "output_text.delta"]
    ended_text = ["output_text.done", "content_part.done", "output_item.done"]
    runs = [kind for number, kind in enumerate(kinds) if number == 0 or kinds[number - 1] != kind]
    assert runs == ["created", "in_progress", *begun_text, *ended_text, *item, *item, "completed"]
    assert [entry.type for entry in final.output] == ["message", "function_call", "function_call"]
    assert streamed_text == {1: final.output[1].arguments, 2: final.output[2].arguments}
    assert [json.loads(entry.arguments)["city"] for entry in final.output[1:]] == ["Rome", "Oslo"]
    assert accepts(gateway.engine.requests[0].options.structural_tag, hermes("Rome"))


async def test_anthropic_streams_the_input_of_a_strict_tool(gateway: Gateway) -> None:
    begun = await gateway.begin()
    number = hermes("Rome").replace('"Rome"', "1e999")
    gateway.engine.say(
        f"I look.\n{hermes('Rome')}", gateway.engine.encode(hermes("Rome"))[:-14], number
    )
    tools = [{"name": "get_weather", "input_schema": CITIES, "strict": True}]
    options = {"model": "tiny-model", "max_tokens": 200, "messages": ASK, "tools": tools}
    async with anthropic.AsyncAnthropic(
        base_url=f"http://{gateway.address}", api_key=begun["api_key"], max_retries=0
    ) as client:
        pieces = []
        async with client.messages.stream(**options) as events:
            async for event in events:
                if event.type == "input_json":
                    pieces.append(event.partial_json)
            final = await events.get_final_message()
        assert len([piece for piece in pieces if piece]) > 3
        assert json.loads("".join(pieces)) == {"city": "Rome"} == final.content[1].input
        assert [block.type for block in final.content] == ["text", "tool_use"]
        cut = await client.messages.create(**options)
        large = await client.messages.create(**options)
        assert (cut.stop_reason, cut.content[0].input) == ("max_tokens", {})
        assert large.content[0].input == {}, "a number beyond the range of JSON readers"
    assert accepts(gateway.engine.requests[0].options.structural_tag, hermes("Rome"))
