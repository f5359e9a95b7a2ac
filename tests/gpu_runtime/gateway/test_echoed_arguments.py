"""Arguments of calls that clients send back: one form of them, whatever came, and a refusal by its
path.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.rendering.calls.json_text import load
from gpu_runtime.rendering.messages import arguments_of_call
from support.gateway_harness import MODEL, Gateway, running_gateway

TOOL = {"name": "now", "description": "It.", "parameters": {"type": "object", "properties": {}}}
EMPTY = ['""', "null", '" "', '"{}"', '"null"', "{}", '" {} "']
NO_OBJECT = [
    '"[1]"',
    '"5"',
    '"true"',
    '"now"',
    '"\\"{}\\""',
    "[]",
    "5",
    "true",
    '"{\\"a\\": 1"',
    '"{\\"a\\": NaN}"',
]
# In the decoded text: half a surrogate pair, a raw newline.
NO_TEXT = [json.dumps('{"a": "\\ud800"}'), json.dumps('{"a": "x\ny"}'), json.dumps('{"a": "\x00"}')]
FAMILIES = [
    "chatml",
    "llama3",
    "mistral",
    "qwen2_5",
    "qwen3",
    "qwen3_6",
    "nemotron_3_nano",
    "gemma4_v5",
    "gptoss",
]
ID = "abcde1234"  # as Mistral's templates want it


def bodies(arguments: str) -> dict[str, tuple[str, str]]:
    """A call with these arguments, as JSON, and its result: each dialect's body, and the path of
    the arguments in it.
    """
    call = {"id": ID, "type": "function", "function": {"name": "now", "arguments": "HERE"}}
    chat = [
        {"role": "user", "content": "when?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": ID, "content": "noon"},
    ]
    items = [
        {"role": "user", "content": "when?"},
        {"type": "function_call", "call_id": ID, "name": "now", "arguments": "HERE"},
        {"type": "function_call_output", "call_id": ID, "output": "noon"},
    ]
    turns = [
        {"role": "user", "content": "when?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": ID, "name": "now", "input": "HERE"}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": ID, "content": "noon"}],
        },
    ]
    schema = {name: value for name, value in TOOL.items() if name != "parameters"}
    made: dict[str, tuple[dict[str, Any], str]] = {
        "/v1/chat/completions": (
            {"messages": chat, "tools": [{"type": "function", "function": TOOL}], "max_tokens": 4},
            "messages[1].tool_calls[0].function.arguments",
        ),
        "/v1/responses": (
            {"input": items, "tools": [{"type": "function", **TOOL}], "max_output_tokens": 4},
            "input[1].arguments",
        ),
        "/v1/messages": (
            {
                "messages": turns,
                "tools": [schema | {"input_schema": TOOL["parameters"]}],
                "max_tokens": 4,
            },
            "messages.1.content.0.input",
        ),
    }
    return {
        path: (json.dumps({"model": MODEL, **body}).replace('"HERE"', arguments), where)
        for path, (body, where) in made.items()
    }


async def post(gateway: Gateway, key: str, path: str, body: str) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {key}"}
    answer = await asyncio.wait_for(
        gateway.http.post(path, content=body.encode(), headers=headers), 60
    )
    return answer.status_code, answer.json()


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_call_without_arguments_makes_one_prompt_however_it_is_echoed(
    tmp_path: Path, family: str
) -> None:
    async with running_gateway(tmp_path, family=family, max_context_length=4096) as gateway:
        key = (await gateway.begin(eval=True))["api_key"]
        for arguments in EMPTY:
            for path, (body, _) in bodies(arguments).items():
                gateway.engine.say("noon")
                status, answer = await post(gateway, key, path, body)
                assert status == 200, (path, arguments, answer)
        assert len({request.prompt_ids for request in gateway.engine.requests}) == 1


async def test_arguments_that_are_no_object_are_refused_by_their_path(gateway: Gateway) -> None:
    key = (await gateway.begin(eval=True))["api_key"]
    for arguments in [*NO_OBJECT, *NO_TEXT]:
        for path, (body, where) in bodies(arguments).items():
            status, answer = await post(gateway, key, path, body)
            assert status == 400, (path, arguments, answer)
            assert where in answer["error"]["message"], (path, arguments, answer)
    assert gateway.engine.requests == []


def test_arguments_have_one_form() -> None:
    for given in (None, "", " ", "null", "{}", {}):
        assert arguments_of_call(given) == {}
    assert (
        arguments_of_call('{"a": "\\ud83d\\ude00"}')
        == arguments_of_call({"a": "\U0001f600"})
        == {"a": "\U0001f600"}
    )


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"\\udc00": 1}', '["\\ud800\\ud800"]'])
def test_half_a_pair_is_no_text_in_json_of_a_model(text: str) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        load(text)


def test_arguments_that_are_too_deep_to_be_written_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="a JSON object"):
        arguments_of_call(deep)
