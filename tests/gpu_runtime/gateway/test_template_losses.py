"""What a chat template leaves out of a conversation without a word is refused by name, and told at
the start.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.template_check import template_report
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.light_tokenizer import LightTokenizer
from support.tiny_tokenizers import build_tokenizer

TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}
ASK = {"role": "user", "content": "weather?"}
IDS = ("call12345", "call67890")


def calling(*ids: str) -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": '{"city": "Rome"}'}
    return {
        "role": "assistant",
        "tool_calls": [{"id": number, "type": "function", "function": function} for number in ids],
    }


def result(number: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": number, "content": "sunny"}


async def refused(gateway: Gateway, **body: Any) -> str:
    """The refusal's message; nothing was sampled."""
    answer = await gateway.raw_chat((await gateway.begin())["api_key"], **body)
    assert (answer.status_code, gateway.engine.requests) == (400, []), answer.text
    return answer.json()["error"]["message"]


async def test_a_template_that_leaves_results_out_has_no_tools(tmp_path: Path) -> None:
    async with running_gateway(
        tmp_path, family="chatml_drops_results", max_context_length=2048
    ) as gateway:
        assert "leaves out what a tool returned" in await refused(
            gateway, messages=[ASK], tools=[TOOL]
        )
        loop = [ASK, calling(IDS[0]), result(IDS[0])]
        assert "messages[2] is the result" in await refused(gateway, messages=loop)
        block = {"type": "tool_result", "tool_use_id": IDS[0], "content": "sunny"}
        use = {"type": "tool_use", "id": IDS[0], "name": "get_weather", "input": {}}
        turns = [ASK, {"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}]
        headers = {"X-Api-Key": (await gateway.begin())["api_key"]}
        body = {"model": MODEL, "max_tokens": 8, "messages": turns}
        answer = await gateway.http.post("/v1/messages", json=body, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (400, "error")
        assert "leaves results out" in answer.json()["error"]["message"]


async def test_a_template_that_leaves_calls_out_takes_no_history_with_calls(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, family="smollm2", max_context_length=2048) as gateway:
        loop = [ASK, calling(IDS[0]), result(IDS[0])]
        assert "messages[1].tool_calls[0] is a call" in await refused(gateway, messages=loop)


@pytest.mark.parametrize("family", ["llama3", "llama3_1", "gptoss"])
async def test_a_template_that_writes_one_call_takes_no_message_with_two(
    tmp_path: Path, family: str
) -> None:
    async with running_gateway(
        tmp_path, family=family, max_tokens=64, max_context_length=4096
    ) as gateway:
        loop = [ASK, calling(*IDS), result(IDS[0]), result(IDS[1])]
        assert "messages[1].tool_calls[1] is the second of 2 calls" in await refused(
            gateway, messages=loop, tools=[TOOL]
        )
        one_by_one = [ASK, calling(IDS[0]), result(IDS[0]), calling(IDS[1]), result(IDS[1])]
        taken = await gateway.raw_chat(
            (await gateway.begin())["api_key"], messages=one_by_one, tools=[TOOL]
        )
        assert taken.status_code == 200, taken.text


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_that_the_history_could_not_hold_are_text(tmp_path: Path, stream: bool) -> None:
    """Llama's template writes one: the agent would be refused at its next request."""
    async with running_gateway(
        tmp_path, family="llama3_1", max_tokens=200, max_context_length=4096
    ) as gateway:
        one = json.dumps({"name": "get_weather", "parameters": {"city": "Rome"}})
        gateway.engine.say(f"{one}; {one}")
        begun = await gateway.begin()
        if stream:
            chunks = [chunk async for chunk in await gateway.chat(begun, tools=[TOOL], stream=True)]
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            assert not any(chunk.choices[0].delta.tool_calls for chunk in chunks)
        else:
            message = (await gateway.chat(begun, tools=[TOOL])).choices[0].message
            assert message.tool_calls is None
            text = message.content
        assert text == f"{one}; {one}"
        history = [ASK, {"role": "assistant", "content": text}, ASK]
        assert (
            await gateway.raw_chat(begun["api_key"], messages=history, tools=[TOOL])
        ).status_code == 200


@pytest.mark.parametrize(
    ("family", "lost"),
    [
        ("chatml_drops_results", "leaves out"),
        ("chatml_odd_calls", "unknown form"),
        ("chatml", None),
    ],
)
def test_tools_that_cannot_be_used_are_told_when_the_session_starts(
    tmp_path: Path, family: str, lost: str | None
) -> None:
    told: list[dict[str, Any]] = []
    renderer = Renderer(LightTokenizer(build_tokenizer(tmp_path, family)))
    template_report(lambda kind, event, key: told.append(event), renderer)
    assert [event["name"] for event in told] == (["tools_unusable"] if lost else [])
    assert all(lost and lost in event["reason"] and event["hint"] for event in told)
