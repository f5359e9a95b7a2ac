"""``POST /v1/responses``, through the real client and through plain HTTP."""

import json
from typing import Any

import pytest

from support.gateway_harness import MODEL, Gateway

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Tell the weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
    "strict": False,
}
CALL_TEXT = (
    'let me see\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
)


async def raw(gateway: Gateway, key: str, headers: dict[str, str] | None = None, **body: Any):
    body = {"model": MODEL, "input": "hello"} | body
    headers = {"Authorization": f"Bearer {key}"} | (headers or {})
    return await gateway.http.post("/v1/responses", json=body, headers=headers)


async def ask(gateway: Gateway, begun: dict[str, Any], stream: bool = False, **options: Any) -> Any:
    client = gateway.openai(begun).responses
    if not stream:
        return await client.create(model=MODEL, **options)
    async with client.stream(model=MODEL, **options) as events:
        return await events.get_final_response()


async def test_answer_is_what_the_engine_sampled(gateway: Gateway) -> None:
    gateway.engine.say("It is four.")
    answer = await ask(
        gateway, await gateway.begin(), instructions="Be brief.", input="What is two plus two?"
    )
    (seen,) = gateway.engine.requests
    assert answer.output_text == "It is four."
    assert answer.status == "completed"
    assert gateway.renderer.decode(seen.prompt_ids, special=True) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is two plus two?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert answer.usage.input_tokens == len(seen.prompt_ids)
    assert answer.usage.output_tokens == len(seen.token_ids)
    assert answer.usage.total_tokens == len(seen.prompt_ids) + len(seen.token_ids)


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_loop_continues_the_ids_that_were_sampled(
    gateway: Gateway, stream: bool
) -> None:
    begun = await gateway.begin()
    gateway.engine.say(f"{CALL_TEXT}\n{CALL_TEXT[11:]}", "Sunny.", "You are welcome.")
    items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "Paris?"}]}]
    tools = [WEATHER]
    first = await ask(gateway, begun, stream, input=items, tools=tools, max_output_tokens=200)
    assert [item.type for item in first.output] == ["message", "function_call", "function_call"]
    calls = first.output[1:]
    assert {call.name for call in calls} == {"get_weather"}
    assert json.loads(calls[0].arguments) == {"city": "Paris"}
    items += [item.to_dict() for item in first.output]
    items += [
        {"type": "function_call_output", "call_id": call.call_id, "output": "sun"} for call in calls
    ]
    second = await ask(gateway, begun, stream, input=items, tools=tools)
    items += [item.to_dict() for item in second.output] + [{"role": "user", "content": "Thanks."}]
    third = await ask(gateway, begun, stream, input=items, tools=tools)
    assert third.output_text == "You are welcome."
    seen = gateway.engine.requests
    for earlier, later in zip(seen, seen[1:], strict=False):
        so_far = (*earlier.prompt_ids, *earlier.token_ids)
        assert later.prompt_ids[: len(so_far)] == so_far
    assert [call.drift for call in gateway.journal.calls.of_episode(begun["episode_id"])] == [
        None
    ] * 3


@pytest.mark.parametrize(
    "text", ["The capital of France is Paris.", CALL_TEXT, CALL_TEXT[11:], "", "a < b <tool"]
)
async def test_stream_has_the_same_content_as_the_whole_response(
    gateway: Gateway, text: str
) -> None:
    begun = await gateway.begin()
    headers = {"X-Request-Id": "req-1"}
    options = {"tools": [WEATHER], "max_output_tokens": 100}
    gateway.engine.say(text, text)
    whole = (await raw(gateway, begun["api_key"], **options)).json()
    streamed = await raw(gateway, begun["api_key"], headers, stream=True, **options)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    events = [
        json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: ")
    ]
    names = [line[7:] for line in streamed.text.splitlines() if line.startswith("event: ")]
    assert names == [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert (names[0], names[-1]) == ("response.created", "response.completed")
    end = events[-1]["response"]

    def without_ids(answer: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {k: v for k, v in item.items() if k not in ("id", "call_id")}
            for item in answer["output"]
        ]

    assert without_ids(end) == without_ids(whole)
    assert end["usage"] == whole["usage"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == end["output"]
    deltas = "".join(
        event["delta"] for event in events if event["type"] == "response.output_text.delta"
    )
    assert deltas == "".join(
        item["content"][0]["text"] for item in end["output"] if item["type"] == "message"
    )
    again = await raw(gateway, begun["api_key"], headers, stream=True, **options)
    replayed = json.loads(again.text.strip().rpartition("data: ")[2])
    assert replayed["response"]["output"] == end["output"]
    assert len(gateway.engine.requests) == 2, "a repeated id is answered from the record"


async def test_text_is_streamed_token_by_token_in_the_real_order(gateway: Gateway) -> None:
    gateway.engine.say("The capital of France is Paris.")
    stream = await gateway.openai(await gateway.begin()).responses.create(
        model=MODEL, input="hello", stream=True
    )
    kinds = [event.type.removeprefix("response.") async for event in stream]
    assert kinds.count("output_text.delta") > 2
    assert list(dict.fromkeys(kinds)) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_answer_cut_by_max_output_tokens_is_incomplete(
    gateway: Gateway, stream: bool
) -> None:
    gateway.engine.say("the quick brown fox jumps over the lazy dog")
    client = gateway.openai(await gateway.begin()).responses
    answer = await client.create(model=MODEL, input="hello", max_output_tokens=3, stream=stream)
    if stream:
        event = [event async for event in answer][-1]
        assert event.type == "response.incomplete"
        answer = event.response
    assert answer.status == "incomplete"
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert [item.status for item in answer.output] == ["incomplete"]
    assert answer.usage.output_tokens == 3


async def test_schema_and_sampling_options_reach_the_engine(gateway: Gateway) -> None:
    gateway.engine.say("{}")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    text = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
    begun = await gateway.begin(eval=True)  # top_p is not for training
    await ask(gateway, begun, input="x", text=text, temperature=0.5, top_p=0.9, max_output_tokens=7)
    (seen,) = gateway.engine.requests
    assert json.loads(seen.options.json_schema) == schema
    assert (seen.options.temperature, seen.options.top_p, seen.options.max_tokens) == (0.5, 0.9, 7)


async def test_forced_tool_is_called(gateway: Gateway) -> None:
    gateway.engine.say('{"name": "get_weather", "arguments": {"city": "Paris"}}')
    choice = {"type": "function", "name": "get_weather"}
    answer = await ask(
        gateway, await gateway.begin(), input="x", tools=[WEATHER], tool_choice=choice
    )
    assert [item.type for item in answer.output] == ["function_call"]
    assert answer.tool_choice.name == "get_weather"


async def test_agent_is_named_by_metadata(gateway: Gateway) -> None:
    begun = await gateway.begin()
    await ask(gateway, begun, input="x", metadata={"agent": "planner"})
    assert [call.agent for call in gateway.journal.calls.of_episode(begun["episode_id"])] == [
        "planner"
    ]


@pytest.mark.parametrize(
    ("option", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"include": ["made.up"]}, "include[0]"),
        ({"reasoning": {"effort": "enormous"}}, "reasoning.effort"),
        ({"truncation": "sometimes"}, "truncation"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"made_up": 1}, "made_up"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"input": []}, "input"),
        ({"input": [{"type": "computer_call"}]}, "input[0].type"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input[0].role"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0]",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"model": "gpt-4o"}, "model"),
    ],
)
async def test_bad_or_unsupported_option_is_named_and_the_episode_lives_on(
    gateway: Gateway, option, param
) -> None:
    begun = await gateway.begin()
    answer = await raw(gateway, begun["api_key"], **option)
    assert answer.status_code == (404 if param == "model" else 400), answer.text
    assert answer.json()["error"]["param"] == param, answer.text
    assert (
        await raw(gateway, begun["api_key"], store=False, truncation="disabled")
    ).status_code == 200


async def test_what_an_agent_framework_sends_by_habit_is_accepted(gateway: Gateway) -> None:
    habit = {
        "include": [],
        "store": False,
        "previous_response_id": None,
        "reasoning": None,
        "prompt_cache_key": "k",
    }
    answer = await raw(
        gateway, (await gateway.begin())["api_key"], parallel_tool_calls=False, tools=[], **habit
    )
    assert answer.status_code == 200, answer.text


async def count(gateway: Gateway, begun: dict[str, Any], **options: Any) -> int:
    counted = await gateway.openai(begun).responses.input_tokens.count(model=MODEL, **options)
    assert counted.object == "response.input_tokens"
    return counted.input_tokens


async def test_tokens_are_counted_as_the_engine_would_read_them(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say(CALL_TEXT, "Sunny.", CALL_TEXT[11:], "So be it.")
    found = {"type": "function_call_output", "output": "sun"}
    items: list[Any] = [{"role": "user", "content": "Paris?"}]
    asked: dict[str, Any] = {"instructions": "Be brief.", "tools": [WEATHER]}
    for _ in range(2):
        counted = await count(gateway, begun, input=items, **asked)
        answer = await ask(gateway, begun, input=items, **asked)
        assert counted == answer.usage.input_tokens == len(gateway.engine.requests[-1].prompt_ids)
        items += [item.to_dict() for item in answer.output]
        calls = [item for item in answer.output if item.type == "function_call"]
        items += [found | {"call_id": call.call_id} for call in calls]
        items += [] if calls else [{"role": "user", "content": "And now?"}]
    forced = asked | {"tool_choice": "required", "input": items}
    assert (
        await count(gateway, begun, **forced)
        == (last := await ask(gateway, begun, **forced)).usage.input_tokens
    )
    results = [found | {"call_id": item.call_id} for item in last.output]
    goes_on = {"previous_response_id": last.id, "input": results, "tools": [WEATHER]}
    assert (
        await count(gateway, begun, **goes_on)
        == (await ask(gateway, begun, **goes_on)).usage.input_tokens
    )
    assert len(gateway.engine.requests) == 4, "counting is no call"
    assert len(gateway.journal.calls.of_episode(begun["episode_id"])) == 4


async def test_counting_takes_what_makes_a_prompt_and_nothing_else(gateway: Gateway) -> None:
    begun = await gateway.begin()
    key = {"Authorization": f"Bearer {begun['api_key']}"}
    for option, named in (
        ({"max_output_tokens": 5}, "max_output_tokens"),
        ({"input": []}, "input"),
        ({"conversation": "c"}, "conversation"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"personality": "friendly"}, "personality"),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
            "input[0].call_id",
        ),
    ):
        body = {"model": MODEL, "input": "hello"} | option
        answer = await gateway.http.post("/v1/responses/input_tokens", json=body, headers=key)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, named), answer.text
    assert await count(gateway, begun, input="x " * 3000) > 2000, (
        "so that its client learns how much too long it is"
    )
    assert (await gateway.end(begun["episode_id"])).json()["error"]["code"] == "empty_episode"
