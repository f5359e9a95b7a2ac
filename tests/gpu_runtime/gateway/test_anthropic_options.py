"""Options of Anthropic's dialect that agents send by habit, and what a text model lacks in every
dialect.
"""

import json
from pathlib import Path
from typing import Any

import anthropic
import pytest

from support.gateway_harness import MODEL, Gateway, running_gateway

TOOL = {"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}
HELLO = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


async def raw(
    gateway: Gateway, begun: dict[str, Any], path: str = "/v1/messages", **body: Any
) -> Any:
    body = (
        {"model": MODEL, "messages": HELLO}
        | ({"max_tokens": 64} if path == "/v1/messages" else {})
        | body
    )
    return await gateway.http.post(path, json=body, headers={"X-Api-Key": begun["api_key"]})


def prompt(gateway: Gateway) -> str:
    return gateway.renderer.decode(gateway.engine.requests[-1].prompt_ids, special=True)


async def test_what_the_clients_send_with_tools_is_accepted(gateway: Gateway) -> None:
    """As the AI SDK's streamText and LangChain's ProviderStrategy do."""
    cache = {"type": "ephemeral", "ttl": "5m"}
    tool = TOOL | {"eager_input_streaming": True, "cache_control": cache}
    system = [{"type": "text", "text": "Be brief.", "cache_control": cache}]
    gateway.engine.say("{}")
    config = {"format": {"type": "json_schema", "schema": SCHEMA}}
    answer = await raw(
        gateway, await gateway.begin(), tools=[tool], system=system, cache_control=cache, output_config=config,
        thinking={"type": "adaptive"}, top_k=0, stream=True,
    )  # fmt: skip
    assert answer.status_code == 200, answer.text
    assert "message_stop" in answer.text


async def test_the_format_of_output_config_binds_the_answer(gateway: Gateway) -> None:
    gateway.engine.say("{}")
    config = {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert (await raw(gateway, await gateway.begin(), output_config=config)).status_code == 200
    assert json.loads(str(gateway.engine.requests[0].options.json_schema)) == SCHEMA


@pytest.mark.parametrize("kind", ["enabled", "disabled", "between_tools"])
async def test_thinking_is_switched_where_the_template_has_a_switch(
    tmp_path: Path, kind: str
) -> None:
    async with running_gateway(tmp_path, family="qwen3") as gateway:
        begun = await gateway.begin()
        budget = {"budget_tokens": 1024} if kind == "enabled" else {}
        thinking = {"type": kind, **budget}
        assert (await raw(gateway, begun, thinking=thinking)).status_code == 200
        assert prompt(gateway).endswith("</think>\n\n") == (kind != "enabled")
        counted = await raw(gateway, begun, "/v1/messages/count_tokens", thinking=thinking)
        assert counted.json()["input_tokens"] == len(gateway.engine.requests[0].prompt_ids)
        contradicted = await raw(
            gateway, begun, thinking=thinking, output_config={"effort": "none"}
        )
        assert contradicted.status_code == (400 if kind == "enabled" else 200)


async def test_thinking_that_the_model_cannot_do_is_a_label_or_refused(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = [
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"output_config": {"effort": "high"}},
    ]
    async with running_gateway(tmp_path / "label") as gateway:
        begun = await gateway.begin()
        for option in asked:
            assert (await raw(gateway, begun, **option)).status_code == 200
        labels = [
            call.options["labels"] for call in gateway.journal.calls.of_episode(begun["episode_id"])
        ]
        assert labels == [
            {"thinking.budget_tokens": 1024, "thinking": "enabled"},
            {"reasoning_effort": "high"},
        ]
    async with running_gateway(tmp_path / "refuse", unsupported_effort="refuse") as gateway:
        begun = await gateway.begin()
        said = [
            (await raw(gateway, begun, **option)).json()["error"]["message"] for option in asked
        ]
        assert "no thoughts" in said[0] and "reasoning effort" in said[1]
        assert gateway.engine.requests == []
        assert (await raw(gateway, begun, thinking={"type": "disabled"})).status_code == 200


IMAGE_URL = {"type": "image_url", "image_url": {"url": "data:"}}
SENSES: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [IMAGE_URL]}]}, "vision"),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        "hearing",
    ),
    (
        "/v1/responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
        "vision",
    ),
    (
        "/v1/messages",
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
        "vision",
    ),
    (
        "/v1/messages",
        {"messages": [{"role": "user", "content": [{"type": "document"}]}]},
        "reader of files",
    ),
]


@pytest.mark.parametrize(("path", "body", "sense"), SENSES)
async def test_a_text_model_says_what_it_lacks(
    gateway: Gateway, path: str, body: dict[str, Any], sense: str
) -> None:
    key = (await gateway.begin())["api_key"]
    body = {"model": MODEL} | ({"max_tokens": 8} if path == "/v1/messages" else {}) | body
    refused = await gateway.http.post(path, json=body, headers={"X-Api-Key": key})
    assert refused.status_code == 400
    assert f"this model has no {sense}" in refused.json()["error"]["message"], refused.text
    assert gateway.engine.requests == []


async def test_a_stream_of_tool_calls_has_no_empty_chunk_and_every_token(gateway: Gateway) -> None:
    begun = await gateway.begin()
    text = 'let me see\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    gateway.engine.say(text)
    function = {"name": "get_weather", "parameters": TOOL["input_schema"]}
    tools = [{"type": "function", "function": function}]
    answer = await gateway.raw_chat(
        begun["api_key"], tools=tools, stream=True, logprobs=True, max_tokens=100
    )
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    choices = [json.loads(line)["choices"][0] for line in lines]
    assert all(choice["delta"] or choice["finish_reason"] for choice in choices)
    (seen,) = gateway.engine.requests
    assert [token for choice in choices for token in choice.get("token_ids", [])] == seen.token_ids
    logprobs = [
        token["logprob"]
        for choice in choices
        for token in (choice["logprobs"] or {"content": []})["content"]
    ]
    assert logprobs == seen.logprobs


async def test_the_package_streams_a_tool_loop_with_its_options(tmp_path: Path) -> None:
    """Anthropic's own client, with everything that it has an argument for."""
    call = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    async with running_gateway(tmp_path, family="qwen3", max_context_length=4096) as gateway:
        begun = await gateway.begin()
        gateway.engine.say(call, "<think>\nso\n</think>\n\nsunny")
        url = f"http://{gateway.address}"
        options: dict[str, Any] = {
            "model": MODEL,
            "max_tokens": 300,
            "tools": [TOOL | {"eager_input_streaming": True}],
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "cache_control": {"type": "ephemeral"},
        }
        async with anthropic.AsyncAnthropic(
            base_url=url, api_key=begun["api_key"], max_retries=0
        ) as client:
            async with client.messages.stream(messages=HELLO, **options) as events:
                first = await events.get_final_message()
            assert [block.type for block in first.content] == ["thinking", "tool_use"]
            result = {"type": "tool_result", "tool_use_id": first.content[1].id, "content": "sun"}
            history = [
                *HELLO,
                {"role": "assistant", "content": first.content},
                {"role": "user", "content": [result]},
            ]
            second = await client.messages.create(messages=history, **options)
        assert [block.type for block in second.content] == ["thinking", "text"]
        one, two = gateway.engine.requests
        so_far = (*one.prompt_ids, *one.token_ids)
        assert two.prompt_ids[: len(so_far)] == so_far
