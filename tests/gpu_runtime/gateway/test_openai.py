"""The routes of OpenAI's chat dialect, through the real client and through plain HTTP."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from gpu_runtime.generation.call_stream import CallStream
from support.gateway_harness import MODEL, SESSION, Gateway, running_gateway
from support.waiting import eventually

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
CALL_TEXT = '<tool_call>\n{"name": "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>'


async def test_answer_is_what_the_engine_sampled(gateway: Gateway) -> None:
    begun = await gateway.begin(task="t")
    gateway.engine.say("It is four.")
    answer = await gateway.chat(begun, "What is two plus two?")
    seen = gateway.engine.requests[0]
    assert answer.choices[0].message.content == "It is four."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].token_ids == seen.token_ids
    assert answer.prompt_token_ids == list(seen.prompt_ids)
    assert gateway.renderer.decode(seen.prompt_ids, special=True) == (
        "<|im_start|>user\nWhat is two plus two?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert answer.usage.prompt_tokens == len(seen.prompt_ids)
    assert answer.usage.completion_tokens == len(seen.token_ids)
    assert [entry.logprob for entry in answer.choices[0].logprobs.content] == pytest.approx(
        seen.logprobs, abs=1e-6
    )
    assert answer.policy_version == 0


@pytest.mark.parametrize(
    "said",
    [
        "The capital of France is Paris.",
        pytest.param("\U0001f642 is what it is.", id="a divided character"),
    ],
)
async def test_stream_gives_the_same_as_the_whole_answer(gateway: Gateway, said: str) -> None:
    begun = await gateway.begin(task="t")
    gateway.engine.say(said)
    stream = await gateway.chat(begun, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    ids = [i for c in chunks if c.choices for i in getattr(c.choices[0], "token_ids", [])]
    seen = gateway.engine.requests[0]
    assert text == said
    assert ids == seen.token_ids
    assert chunks[0].prompt_token_ids == list(seen.prompt_ids)
    assert sum(bool(c.choices and c.choices[0].delta.content) for c in chunks) > 2, "token by token"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.completion_tokens == len(ids)
    assert sum(
        len(c.choices[0].logprobs.content) for c in chunks if c.choices and c.choices[0].logprobs
    ) == len(ids)


async def test_call_is_on_disk_before_its_last_byte(gateway: Gateway) -> None:
    begun = await gateway.begin(task="t")
    async for chunk in await gateway.chat(begun, stream=True):
        if chunk.choices[0].finish_reason:
            assert [
                call.status for call in gateway.journal.calls.of_episode(begun["episode_id"])
            ] == ["completed"]
            break
    else:
        pytest.fail("no chunk had a finish reason")


async def test_ids_and_logprobs_are_left_out_when_refused(gateway: Gateway) -> None:
    begun = await gateway.begin()
    answer = (await gateway.raw_chat(begun["api_key"], return_token_ids=False)).json()
    assert "prompt_token_ids" not in answer
    assert "token_ids" not in answer["choices"][0]
    assert answer["choices"][0]["logprobs"] is None


async def test_logprobs_may_be_the_number_one_or_zero(gateway: Gateway) -> None:
    begun = await gateway.begin()
    for sent, wanted in ((1, True), (0, False)):
        answer = (
            await gateway.raw_chat(begun["api_key"], logprobs=sent, return_token_ids=False)
        ).json()
        assert bool(answer["choices"][0]["logprobs"]) is wanted, sent
    refused = await gateway.raw_chat(begun["api_key"], logprobs=2)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "logprobs")


async def test_top_logprobs_are_returned_as_many_as_asked(gateway: Gateway) -> None:
    answer = await gateway.chat(await gateway.begin(), logprobs=True, top_logprobs=2)
    assert all(len(entry.top_logprobs) == 2 for entry in answer.choices[0].logprobs.content)


async def test_n_answers_are_all_kept(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say("one", "two", "three")
    answer = await gateway.chat(begun, n=3)
    assert sorted(choice.message.content for choice in answer.choices) == ["one", "three", "two"]
    (call,) = gateway.journal.calls.of_episode(begun["episode_id"])
    assert len(call.completions) == 3
    assert answer.usage.completion_tokens == sum(len(c.token_ids_T) for c in call.completions)


async def test_each_answer_of_a_request_has_a_seed_of_its_own(gateway: Gateway) -> None:
    await gateway.chat(await gateway.begin(), n=3, seed=42)
    assert len({request.options.seed for request in gateway.engine.requests}) == 3


async def test_length_is_reported_when_max_tokens_cuts(gateway: Gateway) -> None:
    gateway.engine.say("the quick brown fox jumps over the lazy dog")
    answer = await gateway.chat(await gateway.begin(), max_completion_tokens=3)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 3


async def test_stop_string_ends_the_answer_and_is_no_part_of_it(gateway: Gateway) -> None:
    gateway.engine.say("the quick brown fox")
    answer = await gateway.chat(await gateway.begin(), stop=[" brown"])
    assert answer.choices[0].message.content == "the quick"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].stop_reason == " brown"


async def test_same_seed_on_every_request_makes_no_equal_episodes(gateway: Gateway) -> None:
    seeds = set()
    for _ in range(8):
        begun = await gateway.begin(eval=True)
        await gateway.chat(begun, seed=42)
        seeds.add(gateway.engine.requests[-1].options.seed)
        await gateway.end(begun["episode_id"])
    assert len(seeds) == 8


@pytest.mark.parametrize("header", ["X-Request-Id", "Idempotency-Key"])
async def test_repeated_request_id_gets_the_recorded_answer(gateway: Gateway, header: str) -> None:
    begun = await gateway.begin()
    headers = {header: "req-1"}
    first = await gateway.raw_chat(begun["api_key"], headers, seed=42, n=2)
    again = await gateway.raw_chat(begun["api_key"], headers, seed=42, n=2)
    assert first.json() == again.json()
    assert len(gateway.engine.requests) == 2, "sampled once, two choices"
    other = await gateway.raw_chat(begun["api_key"], headers, seed=43)
    assert other.status_code == 400


async def test_concurrent_repeats_of_a_request_id_are_sampled_once(gateway: Gateway) -> None:
    begun = await gateway.begin()
    headers = {"X-Request-Id": "req-1"}
    answers = await asyncio.gather(*[gateway.raw_chat(begun["api_key"], headers) for _ in range(4)])
    assert len({answer.text for answer in answers}) == 1
    assert len(gateway.engine.requests) == 1


async def test_a_call_is_given_up_with_its_last_reader() -> None:
    """A client that waits no longer and sends its request again leaves one that goes on."""
    given_up: list[bool] = []
    live: Any = CallStream(SimpleNamespace(), SimpleNamespace())
    live.task = SimpleNamespace(cancel=lambda: given_up.append(True))
    live.attach()
    live.attach()
    live.detach()
    assert given_up == []
    live.detach()
    assert given_up == [True]


async def test_one_request_id_in_two_episodes_is_a_call_of_each(gateway: Gateway) -> None:
    """While both are sampled: a client that counts its requests begins anew in each episode."""
    episodes = [await gateway.begin() for _ in range(2)]
    gateway.engine.hang = True
    headers = {"X-Request-Id": "req-1"}
    asking = [
        asyncio.create_task(gateway.raw_chat(begun["api_key"], headers)) for begun in episodes
    ]
    await eventually(lambda: len(gateway.engine.requests) == 2)
    gateway.engine.released.set()
    assert [answer.status_code for answer in await asyncio.gather(*asking)] == [200, 200]
    calls = gateway.journal.calls.of_episode
    assert [len(calls(begun["episode_id"])) for begun in episodes] == [1, 1]


async def test_calls_of_one_episode_run_concurrently(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.hang = True
    calls = [asyncio.ensure_future(gateway.raw_chat(begun["api_key"])) for _ in range(3)]
    await eventually(lambda: len(gateway.engine.requests) == 3)
    await gateway.internal(
        "POST", f"/episodes/{begun['episode_id']}/abandon", json={"reason": "done"}
    )
    assert {answer.status_code for answer in await asyncio.gather(*calls)} == {503}
    assert all(request.cancelled for request in gateway.engine.requests)


@pytest.mark.parametrize("stream", [False, True])
async def test_client_that_goes_away_cancels_its_call(gateway: Gateway, stream: bool) -> None:
    begun = await gateway.begin()
    gateway.engine.hang = True
    call = asyncio.ensure_future(gateway.raw_chat(begun["api_key"], stream=stream))
    await eventually(lambda: gateway.engine.requests)
    call.cancel()
    await eventually(lambda: gateway.engine.requests[0].cancelled)
    await eventually(lambda: gateway.journal.calls.of_episode(begun["episode_id"]))
    assert [c.status for c in gateway.journal.calls.of_episode(begun["episode_id"])] == [
        "cancelled"
    ]
    gateway.engine.hang = False
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200, "the episode lives on"
    assert gateway.journal.episodes.get(begun["episode_id"]).calls == 1, (
        "a cancelled call is not trained"
    )


async def test_prompt_over_the_context_is_refused_before_the_engine(gateway: Gateway) -> None:
    begun = await gateway.begin()
    with pytest.raises(openai.BadRequestError) as refused:
        await gateway.chat(begun, "x " * 2000)
    assert refused.value.code == "context_length_exceeded"
    assert refused.value.body["type"] == "invalid_request_error"
    assert refused.value.param == "messages"
    assert gateway.engine.requests == []
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200, "the episode lives on"


async def test_models_lists_what_the_session_serves(gateway: Gateway) -> None:
    client = gateway.openai(await gateway.begin())
    assert [model.id async for model in await client.models.list()] == [MODEL, SESSION]
    assert (await client.models.retrieve(MODEL)).id == MODEL
    with pytest.raises(openai.NotFoundError) as refused:
        await client.chat.completions.create(
            model="gpt-4o", messages=[{"role": "user", "content": "x"}]
        )
    assert refused.value.code == "model_not_found"


async def test_policy_version_is_on_every_answer(gateway: Gateway) -> None:
    gateway.engine.version = 7
    answer = await gateway.raw_chat((await gateway.begin())["api_key"])
    assert answer.headers["x-policy-version"] == "7"
    assert answer.json()["policy_version"] == 7


async def test_tool_calls_are_parsed_and_streamed(gateway: Gateway) -> None:
    begun = await gateway.begin()
    for stream in (False, True):
        gateway.engine.say(f"let me see\n{CALL_TEXT}\n{CALL_TEXT}")
        answer = await gateway.chat(begun, tools=[WEATHER], stream=stream, max_tokens=200)
        if stream:
            chunks = [chunk.choices[0] async for chunk in answer]
            content = "".join(c.delta.content or "" for c in chunks)
            calls = [call for c in chunks for call in c.delta.tool_calls or []]
            reason = chunks[-1].finish_reason
        else:
            message = answer.choices[0].message
            content, calls, reason = (
                message.content,
                message.tool_calls,
                answer.choices[0].finish_reason,
            )
        assert content == "let me see"
        assert [call.function.name for call in calls] == ["get_weather"] * 2
        assert json.loads(calls[0].function.arguments) == {"city": "Paris"}
        assert len({call.id for call in calls}) == 2
        assert reason == "tool_calls"


async def test_malformed_tool_call_is_text(gateway: Gateway) -> None:
    gateway.engine.say('<tool_call>\n{"name": "get_weather", "arg')
    answer = await gateway.chat(await gateway.begin(), tools=[WEATHER])
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].message.content.startswith("<tool_call>")
    assert answer.choices[0].finish_reason == "stop"


async def test_tool_choice_none_calls_nothing(gateway: Gateway) -> None:
    gateway.engine.say(CALL_TEXT)
    answer = await gateway.chat(await gateway.begin(), tools=[WEATHER], tool_choice="none")
    assert answer.choices[0].message.tool_calls is None


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ("required", "tool_calls"),
        ({"type": "function", "function": {"name": "get_weather"}}, "stop"),
    ],
)
async def test_forced_tool_call_is_constrained_to_the_schema(
    gateway: Gateway, choice, reason
) -> None:
    gateway.engine.say('{"name": "get_weather", "arguments": {"city": "Paris"}}')
    answer = await gateway.chat(
        await gateway.begin(), tools=[WEATHER], tool_choice=choice, max_tokens=200
    )
    seen = gateway.engine.requests[0]
    assert gateway.renderer.decode(seen.prompt_ids, special=True).endswith(
        "<|im_start|>assistant\n<tool_call>\n"
    )
    assert WEATHER["function"]["parameters"] == _schemas(json.loads(seen.options.structural_tag))[0]
    assert answer.choices[0].message.tool_calls[0].function.arguments == '{"city": "Paris"}'
    assert answer.choices[0].message.content is None
    assert answer.choices[0].finish_reason == reason


def _schemas(part: Any) -> list[Any]:
    """The JSON schemas in a structural tag."""
    if isinstance(part, list):
        return [schema for each in part for schema in _schemas(each)]
    if not isinstance(part, dict):
        return []
    return (
        [part["json_schema"]]
        if part.get("type") == "json_schema"
        else _schemas(list(part.values()))
    )


async def test_tools_are_refused_where_the_template_has_none(tmp_path) -> None:
    async with running_gateway(tmp_path, family="smollm2") as gateway:
        with pytest.raises(openai.BadRequestError) as refused:
            await gateway.chat(await gateway.begin(), tools=[WEATHER])
        assert refused.value.param == "tools"


async def test_response_format_reaches_the_engine(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say("{}", "{}")
    await gateway.chat(begun, response_format={"type": "json_object"})
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    await gateway.chat(
        begun,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    )
    assert [request.options.json_schema for request in gateway.engine.requests] == [
        "{}",
        json.dumps(schema),
    ]


@pytest.mark.parametrize(
    ("option", "param"),
    [
        ({"frequency_penalty": 2.5}, "frequency_penalty"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"top_k": -2}, "top_k"),
        ({"made_up": True}, "made_up"),
        ({"functions": []}, "functions"),
        ({"service_tier": "made_up"}, "service_tier"),
        ({"prompt_cache_retention": "for ever"}, "prompt_cache_retention"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"n": 0}, "n"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": ""}, "stop"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x", "zip": 1}]}, "messages[0].zip"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": "data:"}}],
                    }
                ]
            },
            "messages[0].content[0].type",
        ),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"top_logprobs": 3}, "top_logprobs"),
    ],
)
async def test_bad_or_unsupported_option_is_named_and_the_episode_lives_on(
    gateway: Gateway, option, param
) -> None:
    begun = await gateway.begin()
    answer = await gateway.raw_chat(begun["api_key"], **option)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200


async def test_what_clients_add_to_an_echoed_answer_changes_nothing(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say(
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    )
    asked = {"tools": [WEATHER], "max_tokens": 100}
    message = (await gateway.raw_chat(begun["api_key"], **asked)).json()["choices"][0]["message"]
    message |= {"parsed": {"a": 1}, "provider_specific_fields": {"refusal": None}}
    message["tool_calls"][0]["function"]["parsed_arguments"] = {"city": "Paris"}
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sun"}
    messages = [{"role": "user", "content": "hello"}, message, result]
    assert (await gateway.raw_chat(begun["api_key"], messages=messages, **asked)).status_code == 200
    first, second = gateway.engine.requests
    seen = (*first.prompt_ids, *first.token_ids)
    assert second.prompt_ids[: len(seen)] == seen


async def test_what_clients_send_by_habit_and_changes_no_answer_is_accepted(
    gateway: Gateway,
) -> None:
    labels = {
        "user": "me",
        "safety_identifier": "me",
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
    }
    habits = {
        "store": True,
        "service_tier": "flex",
        "verbosity": "medium",
        "metadata": {"run": "1"},
    }
    answer = await gateway.raw_chat(
        (await gateway.begin())["api_key"], **labels, **habits, parallel_tool_calls=True
    )
    assert answer.status_code == 200, answer.text


async def test_neutral_values_and_nulls_are_accepted(gateway: Gateway) -> None:
    neutral = {
        "frequency_penalty": 0,
        "presence_penalty": 0.0,
        "logit_bias": None,
        "store": False,
        "top_k": -1,
    }
    nulls = {
        "tools": None,
        "stop": None,
        "seed": None,
        "response_format": None,
        "functions": None,
        "reasoning_effort": None,
    }
    answer = await gateway.raw_chat(
        (await gateway.begin())["api_key"], **neutral, **nulls, user="me"
    )
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "body", [b"{", b"\xff\xfe", b"[]", b'"x"', b"", b"[" * 100_000, b'{"model": NaN}']
)
async def test_malformed_body_gets_400(gateway: Gateway, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {(await gateway.begin())['api_key']}"}
    answer = await gateway.http.post("/v1/chat/completions", content=body, headers=headers)
    assert answer.status_code == 400
    assert "message" in answer.json()["error"]


async def test_body_over_16_mib_gets_413(gateway: Gateway) -> None:
    headers = {"Authorization": f"Bearer {(await gateway.begin())['api_key']}"}
    answer = await gateway.http.post(
        "/v1/chat/completions", content=b" " * (17 * 2**20), headers=headers
    )
    assert answer.status_code == 413


async def test_tool_without_parameters_is_a_tool(gateway: Gateway) -> None:
    tool = {"type": "function", "function": {"name": "now"}}
    assert (await gateway.chat(await gateway.begin(), tools=[tool])).choices


async def test_text_parts_are_accepted(gateway: Gateway) -> None:
    parts = [{"type": "text", "text": "hello"}, {"type": "text", "text": "world"}]
    await gateway.chat(await gateway.begin(), messages=[{"role": "user", "content": parts}])
    assert "hello\nworld" in gateway.renderer.decode(gateway.engine.requests[0].prompt_ids)


async def test_dead_engine_is_reported_and_calls_get_503(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.dead = True
    answer = await gateway.raw_chat(begun["api_key"])
    assert answer.status_code == 503
    assert [fault.code for fault in gateway.faults] == ["engine_dead"]
    assert gateway.journal.calls.of_episode(begun["episode_id"]) == []


async def test_error_in_a_stream_is_its_last_event(gateway: Gateway) -> None:
    gateway.engine.hang = True
    asking = asyncio.create_task(gateway.raw_chat((await gateway.begin())["api_key"], stream=True))
    await eventually(lambda: gateway.engine.requests and gateway.engine.requests[0].token_ids)
    gateway.engine.dead = True
    gateway.engine.released.set()
    answer = await asking
    assert (answer.status_code, [fault.code for fault in gateway.faults]) == (200, ["engine_dead"])
    events = [line for line in answer.text.splitlines() if line]
    assert "error" in json.loads(events[-1].removeprefix("data: "))
    assert "[DONE]" not in answer.text


async def test_calls_are_read_with_their_tokens(gateway: Gateway) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun, extra_headers={"X-Agent": "planner"})
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    (call,) = (
        await gateway.http.get(f"/v1/episodes/{begun['episode_id']}/calls", headers=headers)
    ).json()["items"]
    seen = gateway.engine.requests[0]
    assert call["prompt_token_ids"] == list(seen.prompt_ids)
    assert call["completions"][0]["token_ids"] == seen.token_ids
    assert call["agent"] == "planner"
    assert (
        await gateway.http.get("/v1/episodes/epi_other/calls", headers=headers)
    ).status_code == 404
