"""What the engine is held to where an answer must be a call, or a call or JSON: tried on the
engine's own grammars.
"""

import json
from typing import Any

import pytest

from gpu_runtime.rendering.tool_formats import HERMES, LLAMA3, MISTRAL, SMOLLM2, ToolFormat
from gpu_runtime.rendering.tool_grammars import call_or_answer, forced_call
from support.gateway_harness import Gateway, running_gateway
from support.tool_answers import TOOLS, accepts, weather

YES = json.dumps(
    {"type": "object", "properties": {"answer": {"enum": ["yes", "no"]}}, "required": ["answer"]}
)


@pytest.mark.parametrize(
    ("call_format", "one", "two"),
    [
        (HERMES, f"{weather('Oslo')}\n</tool_call>", None),
        (LLAMA3, weather("Oslo", "parameters"), None),
        (MISTRAL, f"[{weather('Oslo')}]", f"[{weather('Oslo')}, {weather('Rome')}]"),
        (
            SMOLLM2,
            f"[{weather('Oslo')}]</tool_call>",
            f"[{weather('Oslo')}, {weather('Rome')}]</tool_call>",
        ),
    ],
)
def test_a_forced_call_is_a_call_and_nothing_else(
    call_format: ToolFormat, one: str, two: str | None
) -> None:
    if call_format is MISTRAL:
        call_format = ToolFormat(**{**vars(MISTRAL), "list_frame": ("[", "]")})
    several, single = (forced_call(call_format, TOOLS, many=many) for many in (True, False))
    assert accepts(several, one)
    assert accepts(single, one)
    for wrong in (
        one.replace("Oslo", "Mars"),
        one.replace("get_weather", "rm"),
        "no",
        "",
        one + one,
    ):
        assert not accepts(several, wrong)
    if two is not None:
        assert accepts(several, two)
        assert not accepts(single, two)
    named = forced_call(call_format, TOOLS[1:], many=False)
    assert not accepts(named, one)
    written = f"{call_format.prefill}{one}"
    content, (call,) = call_format.parse(written)
    assert (content, call.name, json.loads(call.arguments)) == ("", "get_weather", {"city": "Oslo"})


@pytest.mark.parametrize("call_format", [HERMES, LLAMA3])
def test_an_answer_with_tools_and_a_format_is_either(call_format: ToolFormat) -> None:
    both = call_or_answer(call_format, TOOLS, YES, many=True)
    call = f"{call_format.prefill}{weather('Rome', call_format.arguments_key)}{call_format.list_frame[1]}"
    for right in ('{"answer": "yes"}', call):
        assert accepts(both, right)
    for wrong in (
        "yes",
        '{"answer": "maybe"}',
        call + '{"answer": "yes"}',
        f"I say {call}",
        call.replace("Rome", "x"),
    ):
        assert not accepts(both, wrong)
    assert accepts(call_or_answer(call_format, TOOLS, "{}", many=False), '{"anything": [1]}')


def test_parallel_calls_are_allowed_unless_the_request_forbids_them() -> None:
    two = "\n".join(
        f"{HERMES.prefill}{weather(city)}{HERMES.list_frame[1]}" for city in ("Rome", "Oslo")
    )
    assert accepts(call_or_answer(HERMES, TOOLS, YES, many=True), two)
    assert not accepts(call_or_answer(HERMES, TOOLS, YES, many=False), two)


# Through the gateway.

FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": json.loads(YES)}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize(
    "said", ['{"answer": "yes"}', f"<tool_call>\n{weather('Rome')}\n</tool_call>"]
)
async def test_tools_and_a_response_format_work_together(gateway: Gateway, said: str) -> None:
    begun = await gateway.begin()
    gateway.engine.say(said)
    answer = await gateway.chat(begun, tools=TOOLS, response_format=FORMAT, max_tokens=200)
    seen = gateway.engine.requests[0].options
    assert seen.json_schema is None
    assert accepts(seen.structural_tag, said)
    message, reason = answer.choices[0].message, answer.choices[0].finish_reason
    if said.startswith("{"):
        assert (message.content, message.tool_calls, reason) == (said, None, "stop")
    else:
        assert (message.content, reason) == (None, "tool_calls")
        assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Rome"}


async def test_a_forced_call_is_no_answer_that_has_a_format(gateway: Gateway) -> None:
    begun = await gateway.begin()
    for choice in ("required", NAMED):
        gateway.engine.say(weather("Rome"))
        answer = await gateway.chat(
            begun, tools=TOOLS, response_format=FORMAT, tool_choice=choice, max_tokens=200
        )
        assert answer.choices[0].message.tool_calls[0].function.name == "get_weather"
        seen = gateway.engine.requests[-1].options
        assert accepts(seen.structural_tag, f"{weather('Oslo')}\n</tool_call>")
        assert not accepts(seen.structural_tag, '{"answer": "yes"}')
    gateway.engine.say('{"answer": "yes"}')
    await gateway.chat(begun, tools=TOOLS, response_format=FORMAT, tool_choice="none")
    assert json.loads(gateway.engine.requests[-1].options.json_schema) == json.loads(YES)


@pytest.mark.parametrize(
    ("family", "said", "start"),
    [
        ("chatml", f"{weather('Rome')}\n</tool_call>", "<|im_start|>assistant\n<tool_call>\n"),
        (
            "llama3",
            weather("Rome", "parameters"),
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        ("mistral", f" [{weather('Rome')}, {weather('Oslo')}]", "[/INST][TOOL_CALLS]"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_every_family_can_be_made_to_call(
    tmp_path, family: str, said: str, start: str, stream: bool
) -> None:
    async with running_gateway(
        tmp_path, family=family, max_tokens=200, max_context_length=2048
    ) as gateway:
        begun = await gateway.begin()
        gateway.engine.say(said)
        options = {"tools": TOOLS, "tool_choice": "required"}
        if stream:
            async with gateway.openai(begun).chat.completions.stream(
                model="tiny-model", messages=[{"role": "user", "content": "x"}], **options
            ) as events:
                answer = await events.get_final_completion()
        else:
            answer = await gateway.chat(begun, "x", **options)
        seen = gateway.engine.requests[0]
        assert gateway.renderer.decode(seen.prompt_ids, special=True).endswith(start)
        assert accepts(seen.options.structural_tag, said)
        cities = [
            json.loads(call.function.arguments)["city"]
            for call in answer.choices[0].message.tool_calls
        ]
        assert cities == ["Rome", "Oslo"][: len(cities)]
        assert len(cities) == (2 if family == "mistral" else 1)
        assert answer.choices[0].finish_reason == "tool_calls"


async def test_a_format_that_marks_calls_with_a_special_token_names_the_obstacle(tmp_path) -> None:
    async with running_gateway(tmp_path, family="mistral", max_context_length=2048) as gateway:
        begun = await gateway.begin()
        answer = await gateway.raw_chat(begun["api_key"], tools=TOOLS, response_format=FORMAT)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "response_format")
        assert "special token" in answer.json()["error"]["message"]
        assert (await gateway.raw_chat(begun["api_key"], tools=TOOLS)).status_code == 200


async def test_a_template_that_writes_calls_in_an_unknown_way_reports_it(tmp_path) -> None:
    async with running_gateway(tmp_path, family="chatml_odd_calls") as gateway:
        begun = await gateway.begin()
        answer = await gateway.raw_chat(begun["api_key"], tools=TOOLS)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools")
        assert "not known" in answer.json()["error"]["message"]


# Several answers and several calls at once, through the real client's own accumulation of a stream.


@pytest.mark.parametrize("stream", [False, True])
async def test_n_answers_each_with_its_own_parallel_calls(gateway: Gateway, stream: bool) -> None:
    begun = await gateway.begin()
    texts = [
        "\n".join(f"<tool_call>\n{weather(city)}\n</tool_call>" for city in cities)
        for cities in CHOICES
    ]
    gateway.engine.say(*texts)
    options: dict[str, Any] = {"tools": TOOLS, "n": 3, "max_tokens": 200}
    messages = [{"role": "user", "content": "weather?"}]
    if stream:
        async with gateway.openai(begun).chat.completions.stream(
            model="tiny-model", messages=messages, **options
        ) as events:
            answer = await events.get_final_completion()
    else:
        answer = await gateway.chat(begun, messages=messages, **options)
    found = {}
    for choice in answer.choices:
        calls = choice.message.tool_calls or []
        found[choice.index] = [json.loads(call.function.arguments)["city"] for call in calls]
        assert choice.finish_reason == "tool_calls"
    assert sorted(found) == [0, 1, 2]
    assert sorted(found.values()) == sorted(CHOICES)
    ids = [call.id for choice in answer.choices for call in choice.message.tool_calls]
    assert len(set(ids)) == len(ids)


CHOICES = [["Rome"], ["Oslo", "Rome"], ["Rome", "Oslo", "Oslo"]]


@pytest.mark.parametrize("family", ["chatml", "llama3"])
@pytest.mark.parametrize("stream", [False, True])
async def test_sampling_ends_at_the_first_call_where_parallel_calls_are_off(
    tmp_path, family: str, stream: bool
) -> None:
    """Nothing of a second call is hidden from the client and trained, and the conversation goes on
    on its ids.
    """
    one = {
        "chatml": f"<tool_call>\n{weather('Rome')}\n</tool_call>",
        "llama3": weather("Rome", "parameters"),
    }[family]
    more = {
        "chatml": f"\n<tool_call>\n{weather('Oslo')}\n</tool_call>",
        "llama3": "; " + weather("Oslo", "parameters"),
    }
    async with running_gateway(
        tmp_path, family=family, max_tokens=200, max_context_length=2048
    ) as gateway:
        begun = await gateway.begin()
        gateway.engine.say(one + more[family], "It is sunny.")
        messages: list = [{"role": "user", "content": "weather?"}]
        options = {"messages": messages, "tools": TOOLS, "parallel_tool_calls": False}
        if stream:
            async with gateway.openai(begun).chat.completions.stream(
                model="tiny-model", **options
            ) as events:
                answer = await events.get_final_completion()
        else:
            answer = await gateway.chat(begun, **options)
        (call,) = answer.choices[0].message.tool_calls
        (recorded,) = gateway.journal.calls.of_episode(begun["episode_id"])
        assert recorded.completions[0].text == one
        assert gateway.renderer.decode(recorded.completions[0].token_ids_T) == one
        assert gateway.engine.requests[0].cancelled
        assert answer.choices[0].finish_reason == "tool_calls"
        echo = {
            "role": "assistant",
            "tool_calls": [call.model_dump(exclude={"parsed_arguments"}, exclude_none=True)],
        }
        messages += [echo, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        await gateway.chat(begun, messages=messages, tools=TOOLS)
        first, second = gateway.journal.calls.of_episode(begun["episode_id"])
        assert second.drift is None
        seen = first.prompt_ids_P + first.completions[0].token_ids_T
        assert second.prompt_ids_P[: len(seen)] == seen


@pytest.mark.parametrize(
    ("asked", "prefill"),
    [({"tool_choice": "required"}, ""), ({"response_format": FORMAT}, HERMES.prefill)],
)
async def test_a_template_that_writes_one_call_of_a_message_is_offered_one(
    tmp_path, asked: dict, prefill: str
) -> None:
    """The gateway refuses a history with several: it must not have made it itself."""
    async with running_gateway(
        tmp_path, family="chatml_one_call", max_tokens=200, max_context_length=2048
    ) as gateway:
        begun = await gateway.begin()
        one, more = (
            f"{prefill}{weather('Rome')}\n</tool_call>",
            f"\n<tool_call>\n{weather('Oslo')}\n</tool_call>",
        )
        gateway.engine.say(one)
        messages: list = [{"role": "user", "content": "weather?"}]
        answer = (
            (await gateway.chat(begun, messages=messages, tools=TOOLS, **asked)).choices[0].message
        )
        tag = gateway.engine.requests[0].options.structural_tag
        assert accepts(tag, one) and not accepts(tag, one + more)
        (call,) = answer.tool_calls
        messages += [
            answer.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "sun"},
        ]
        assert (
            await gateway.raw_chat(begun["api_key"], messages=messages, tools=TOOLS)
        ).status_code == 200


async def test_a_list_of_calls_is_held_to_one_by_a_grammar(tmp_path) -> None:
    """Half a list cannot be closed: Mistral's format is constrained where the others are cut."""
    async with running_gateway(
        tmp_path, family="mistral", max_tokens=200, max_context_length=2048
    ) as gateway:
        begun = await gateway.begin()
        gateway.engine.say(f"[TOOL_CALLS] [{weather('Rome')}]")
        await gateway.chat(begun, tools=TOOLS, parallel_tool_calls=False)
        tag = gateway.engine.requests[0].options.structural_tag
        assert tag is not None and '"star"' not in tag


def test_llama_calls_are_read_whatever_their_arguments_hold() -> None:
    one = '{"name": "f", "parameters": {"q": "a; b {c}"}}'
    content, calls = LLAMA3.parse(f"{one}; {one}")
    assert (content, [json.loads(call.arguments)["q"] for call in calls]) == ("", ["a; b {c}"] * 2)
    for text in (
        '{"name": "Bob", "age": 3}',
        f"{one} and so on",
        "{",
        '{"name": "f", "parameters": 1}',
    ):
        assert LLAMA3.parse(text) == (text, [])
