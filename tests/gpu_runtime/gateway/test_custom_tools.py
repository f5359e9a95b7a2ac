"""Tools of type ``custom``: one text in, held by a grammar, in chat and in responses, whole and
streamed.
"""

import json
from typing import Any

import pytest

from support.gateway_harness import MODEL, Gateway

CODE = 'print("hi")\n'
CUSTOM = {"name": "run_code", "description": "Runs Python."}
CHAT_TOOL = {"type": "custom", "custom": CUSTOM}
TOOL = {"type": "custom", **CUSTOM}
CALL = (
    "<tool_call>\n"
    + json.dumps({"name": "run_code", "arguments": {"input": CODE}})
    + "\n</tool_call>"
)
HELLO: list[Any] = [{"role": "user", "content": "go"}]


def continues(gateway: Gateway) -> bool:
    first, second = gateway.engine.requests
    so_far = (*first.prompt_ids, *first.token_ids)
    return second.prompt_ids[: len(so_far)] == so_far


@pytest.mark.parametrize("stream", [False, True])
async def test_a_loop_in_chat(gateway: Gateway, stream: bool) -> None:
    key = (await gateway.begin())["api_key"]
    gateway.engine.say(CALL, "done")
    asked = {"tools": [CHAT_TOOL], "max_tokens": 120}
    answer = await gateway.raw_chat(key, messages=HELLO, stream=stream, **asked)
    if stream:
        lines = [
            json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")
        ]
        calls = [c for line in lines for c in line["choices"][0]["delta"].get("tool_calls", [])]
        assert lines[-1]["choices"][0]["finish_reason"] == "tool_calls"
        assert calls[0].pop("index") == 0
    else:
        calls = answer.json()["choices"][0]["message"]["tool_calls"]
    (call,) = calls
    assert (call["type"], call["custom"]) == ("custom", {"name": "run_code", "input": CODE})
    assert "function" not in call
    (seen,) = gateway.engine.requests
    assert '"additionalProperties": false' in str(seen.options.structural_tag), (
        "a grammar holds it to one text"
    )
    history = [*HELLO, {"role": "assistant", "content": "", "tool_calls": [call]}]
    history.append({"role": "tool", "tool_call_id": call["id"], "content": "hi"})
    assert (await gateway.raw_chat(key, messages=history, **asked)).status_code == 200
    assert continues(gateway)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_loop_in_responses(gateway: Gateway, stream: bool) -> None:
    begun = await gateway.begin()
    gateway.engine.say(f"so\n{CALL}", "done")
    client = gateway.openai(begun).responses
    asked: dict[str, Any] = {"model": MODEL, "tools": [TOOL], "max_output_tokens": 120}
    if stream:
        async with client.stream(input=HELLO, **asked) as events:
            kinds = [event.type async for event in events]
            answer = await events.get_final_response()
        assert "response.custom_tool_call_input.done" in kinds
    else:
        answer = await client.create(input=HELLO, **asked)
    message, call = answer.output
    assert (message.type, call.type, call.name, call.input) == (
        "message",
        "custom_tool_call",
        "run_code",
        CODE,
    )
    result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "hi"}
    history = [*HELLO, message.to_dict(), call.to_dict(), result]
    second = await client.create(input=history, **asked)
    assert second.output_text == "done" and continues(gateway)


async def test_a_custom_tool_can_be_named_and_its_grammar_is_refused(gateway: Gateway) -> None:
    key = (await gateway.begin())["api_key"]
    gateway.engine.say(json.dumps({"name": "run_code", "arguments": {"input": CODE}}))
    named = {"type": "custom", "custom": {"name": "run_code"}}
    answer = (
        await gateway.raw_chat(key, tools=[CHAT_TOOL], tool_choice=named, max_tokens=120)
    ).json()
    assert answer["choices"][0]["message"]["tool_calls"][0]["custom"]["input"] == CODE
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
    refused = await gateway.raw_chat(
        key, tools=[{"type": "custom", "custom": CUSTOM | {"format": grammar}}]
    )
    assert refused.status_code == 400 and "strict function" in refused.json()["error"]["message"]
