"""``POST /v1/messages``, through the real Anthropic client and through plain HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest

from gpu_runtime.gateway import completion_handler
from support.gateway_harness import MODEL, Gateway
from support.waiting import eventually

WEATHER = {
    "name": "get_weather",
    "description": "Tell the weather.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
CALL_TEXT = (
    'let me see\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
)
HELLO = [{"role": "user", "content": "hello"}]


async def raw(gateway: Gateway, key: str, headers: dict[str, str] | None = None, **body: Any):
    body = {"model": MODEL, "max_tokens": 32, "messages": HELLO} | body
    return await gateway.http.post(
        "/v1/messages", json=body, headers={"X-Api-Key": key} | (headers or {})
    )


async def ask(gateway: Gateway, begun: dict[str, Any], stream: bool = False, **options: Any) -> Any:
    options = {"model": MODEL, "max_tokens": 100} | options
    url = f"http://{gateway.address}"
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key=begun["api_key"], max_retries=0
    ) as client:
        if not stream:
            return await client.messages.create(**options)
        async with client.messages.stream(**options) as events:
            return await events.get_final_message()


async def test_answer_is_what_the_engine_sampled(gateway: Gateway) -> None:
    gateway.engine.say("It is four.")
    sampling = {"temperature": 0.5, "top_p": 0.9}  # the client has no arguments for them any more
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    begun = await gateway.begin(eval=True)  # top_p is not for training
    answer = await ask(gateway, begun, system=system, messages=HELLO, extra_body=sampling)
    (seen,) = gateway.engine.requests
    assert [block.text for block in answer.content] == ["It is four."]
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
    assert gateway.renderer.decode(seen.prompt_ids, special=True) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert answer.usage.input_tokens == len(seen.prompt_ids)
    assert answer.usage.output_tokens == len(seen.token_ids)
    assert (seen.options.temperature, seen.options.top_p, seen.options.max_tokens) == (
        0.5,
        0.9,
        100,
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_loop_continues_the_ids_that_were_sampled(
    gateway: Gateway, stream: bool
) -> None:
    begun = await gateway.begin()
    gateway.engine.say(f"{CALL_TEXT}\n{CALL_TEXT[11:]}", "Sunny.", "You are welcome.")
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "Paris?"}]}]
    first = await ask(gateway, begun, stream, messages=messages, tools=[WEATHER], max_tokens=200)
    assert [block.type for block in first.content] == ["text", "tool_use", "tool_use"]
    assert first.stop_reason == "tool_use"
    calls = first.content[1:]
    assert [call.input for call in calls] == [{"city": "Paris"}] * 2
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "sun"} for call in calls]
    messages += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": results},
    ]
    second = await ask(gateway, begun, stream, messages=messages, tools=[WEATHER])
    messages += [
        {"role": "assistant", "content": second.content},
        {"role": "user", "content": "Thanks."},
    ]
    third = await ask(gateway, begun, stream, messages=messages, tools=[WEATHER])
    assert third.content[0].text == "You are welcome."
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
    gateway.engine.say(text)
    headers = {"X-Request-Id": "req-1"}
    options = {"messages": HELLO, "tools": [WEATHER], "stream": True, "max_tokens": 100}
    streamed = await raw(gateway, begun["api_key"], headers, **options)
    again = await raw(gateway, begun["api_key"], headers, **options)
    assert len(gateway.engine.requests) == 1, "a repeated id is answered from the record"
    assert streamed.text.partition("message_delta")[2] == again.text.partition("message_delta")[2]
    names = [line[7:] for line in streamed.text.splitlines() if line.startswith("event: ")]
    assert (names[0], names[-2:]) == ("message_start", ["message_delta", "message_stop"])
    gateway.engine.say(text, text)
    whole = await ask(gateway, begun, messages=HELLO, tools=[WEATHER])
    final = await ask(gateway, begun, True, messages=HELLO, tools=[WEATHER])
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert final.usage.input_tokens == whole.usage.input_tokens
    assert final.stop_reason == whole.stop_reason

    def said(message: Any) -> list[Any]:
        return [
            block.text if block.type == "text" else (block.name, block.input)
            for block in message.content
        ]

    assert said(final) == said(whole)


@pytest.mark.parametrize("stream", [False, True])
async def test_stop_reasons_are_reported(gateway: Gateway, stream: bool) -> None:
    begun = await gateway.begin()
    gateway.engine.say("the quick brown fox", "the quick brown fox")
    cut = await ask(gateway, begun, stream, messages=HELLO, max_tokens=2)
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 2)
    stopped = await ask(gateway, begun, stream, messages=HELLO, stop_sequences=[" brown"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " brown")
    assert stopped.content[0].text == "the quick"


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
async def test_forced_tool_is_called(gateway: Gateway, choice: dict[str, str]) -> None:
    gateway.engine.say('{"name": "get_weather", "arguments": {"city": "Paris"}}')
    answer = await ask(
        gateway, await gateway.begin(), messages=HELLO, tools=[WEATHER], tool_choice=choice
    )
    assert [block.type for block in answer.content] == ["tool_use"]
    assert answer.stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ({"top_k": 5}, "top_k"),
        ({"thinking": {"type": "sometimes"}}, "thinking"),
        ({"made_up": 1}, "made_up"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            "messages.0.content.0",
        ),
        ({"tools": [{"type": "computer_20250124", "name": "computer"}]}, "tools.0"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ],
)
async def test_bad_or_unsupported_option_is_named_and_the_episode_lives_on(
    gateway: Gateway, option, named
) -> None:
    begun = await gateway.begin()
    answer = await raw(gateway, begun["api_key"], **option)
    assert answer.status_code == 400, answer.text
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert named in answer.json()["error"]["message"]
    assert (await raw(gateway, begun["api_key"])).status_code == 200


async def test_key_goes_in_either_header_and_errors_are_typed(gateway: Gateway) -> None:
    begun = await gateway.begin()
    bearer = {"Authorization": f"Bearer {begun['api_key']}"}
    assert (await raw(gateway, "", bearer)).status_code == 200
    with pytest.raises(anthropic.AuthenticationError):
        await ask(gateway, {"api_key": "wrong"}, messages=HELLO)
    with pytest.raises(anthropic.NotFoundError) as refused:
        await ask(gateway, begun, messages=HELLO, model="another")
    assert refused.value.body["error"]["type"] == "not_found_error"


async def test_error_in_a_stream_is_its_last_event(gateway: Gateway) -> None:
    gateway.engine.hang = True
    asking = asyncio.create_task(raw(gateway, (await gateway.begin())["api_key"], stream=True))
    await eventually(lambda: gateway.engine.requests and gateway.engine.requests[0].token_ids)
    gateway.engine.dead = True
    gateway.engine.released.set()
    answer = await asking
    last = answer.text.strip().rpartition("event: error\ndata: ")[2]
    assert json.loads(last)["error"]["type"] == "overloaded_error"
    assert "message_stop" not in answer.text


async def test_runner_of_the_package_goes_on_without_the_thread_that_it_asks_for(
    gateway: Gateway,
) -> None:
    @anthropic.beta_async_tool
    async def get_weather(city: str) -> str:
        """Tell the weather."""
        return f"sun in {city}"

    begun = await gateway.begin()
    refused = await raw(gateway, begun["api_key"], thread={"type": "create"})
    assert refused.status_code == 400
    assert refused.json()["error"]["details"] == {"error_code": "thread_unsupported_request"}
    gateway.engine.say(CALL_TEXT, "Sunny.")
    url = f"http://{gateway.address}"
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key=begun["api_key"], max_retries=0
    ) as client:
        options = {"model": MODEL, "max_tokens": 100, "messages": HELLO, "tools": [get_weather]}
        answer = await client.beta.messages.tool_runner(**options).until_done()
    assert answer.content[0].text == "Sunny."
    first, second = gateway.engine.requests
    assert "sun in Paris" in gateway.renderer.decode(second.prompt_ids)
    assert second.prompt_ids[: len(first.prompt_ids)] == first.prompt_ids


async def test_tokens_are_counted_as_the_engine_would_read_them(gateway: Gateway) -> None:
    begun = await gateway.begin()
    asked = {"model": MODEL, "system": "Be brief.", "tools": [WEATHER]}
    messages: list[Any] = [{"role": "user", "content": "Paris?"}]
    gateway.engine.say(
        CALL_TEXT, "Sunny.", '{"name": "get_weather", "arguments": {"city": "Paris"}}'
    )
    for _ in range(2):
        counted = await count(gateway, begun, messages=messages, **asked)
        answer = await ask(gateway, begun, messages=messages, **asked)
        assert (
            counted.input_tokens
            == answer.usage.input_tokens
            == len(gateway.engine.requests[-1].prompt_ids)
        )
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": "sun"} for call in calls
        ]
        messages.append({"role": "user", "content": results or "And now?"})
    forced = {"tool_choice": {"type": "any"}, "messages": messages} | asked
    assert (await count(gateway, begun, **forced)).input_tokens == (
        await ask(gateway, begun, **forced)
    ).usage.input_tokens
    assert (
        len(gateway.engine.requests)
        == len(gateway.journal.calls.of_episode(begun["episode_id"]))
        == 3
    ), "counting is no call"


async def test_counting_takes_what_makes_a_prompt_and_nothing_else(gateway: Gateway) -> None:
    begun = await gateway.begin()
    headers = {"X-Api-Key": begun["api_key"]}
    for option, named in (
        ({"max_tokens": 5}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"model": 3}, "model"),
    ):
        body = {"model": MODEL, "messages": HELLO} | option
        answer = await gateway.http.post("/v1/messages/count_tokens", json=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (
            400,
            "invalid_request_error",
        )
        assert named in answer.json()["error"]["message"]
    long = {"model": MODEL, "messages": [{"role": "user", "content": "x " * 3000}]}
    counted = await gateway.http.post("/v1/messages/count_tokens", json=long, headers=headers)
    assert counted.json()["input_tokens"] > 2000, (
        "so that its client learns how much too long it is"
    )
    assert (await gateway.end(begun["episode_id"])).json()["error"]["code"] == "empty_episode"


async def count(gateway: Gateway, begun: dict[str, Any], **options: Any) -> Any:
    url = f"http://{gateway.address}"
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key=begun["api_key"], max_retries=0
    ) as client:
        return await client.messages.count_tokens(**options)


async def test_a_stream_pings_while_the_prompt_is_read(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion_handler, "PING_S", 0.01)
    read, begun = asyncio.Event(), await gateway.begin()
    reach = gateway.engine.generate

    async def slow(*asked: Any) -> AsyncIterator[Any]:
        await read.wait()
        async for delta in reach(*asked):
            yield delta

    monkeypatch.setattr(gateway.engine, "generate", slow)
    body = {
        "model": MODEL,
        "max_tokens": 8,
        "stream": True,
        "messages": [{"role": "user", "content": "hello"}],
    }
    key = {"Authorization": f"Bearer {begun['api_key']}"}
    kinds = []
    async with gateway.http.stream("POST", "/v1/messages", json=body, headers=key) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                kinds.append(line.removeprefix("event: "))
            if kinds.count("ping") == 2:
                read.set()
    assert kinds[:2] == ["message_start", "ping"] and kinds[-1] == "message_stop"
