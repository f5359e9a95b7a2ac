"""What OpenAI's clients look at in an error: its ``code`` and ``param`` are those of OpenAI's own
API."""

from typing import Any

import pytest

from support.gateway_harness import MODEL, Gateway

CHAT: list[tuple[dict[str, Any], str | None, str | None]] = [
    ({"temperature": 3}, "temperature", "decimal_above_max_value"),
    ({"n": 0}, "n", "integer_below_min_value"),
    ({"messages": []}, "messages", "empty_array"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role", "invalid_value"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter"),
    (
        {"messages": [{"role": "user", "content": "x", "zip": 1}]},
        "messages[0].zip",
        "unknown_parameter",
    ),
    ({"zip": 1}, "zip", "unknown_parameter"),
    ({"audio": {}}, "audio", "unsupported_parameter"),
    ({"seed": "x"}, "seed", "invalid_type"),
    ({"stop": ["x"] * 17}, "stop", "array_above_max_length"),
    ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
    (
        {"tools": [{"type": "function", "function": {"name": "x" * 129}}]},
        "tools[0].function.name",
        "string_above_max_length",
    ),
    (
        {"tools": [{"type": "function", "function": {"name": "a b"}}]},
        "tools[0].function.name",
        "invalid_value",
    ),
    ({"model": "gpt-4o"}, "model", "model_not_found"),
]


@pytest.mark.parametrize(("option", "param", "code"), CHAT)
async def test_an_error_has_openais_code_and_param(
    gateway: Gateway, option: dict[str, Any], param: str, code: str
) -> None:
    error = (await gateway.raw_chat((await gateway.begin())["api_key"], **option)).json()["error"]
    assert (error["param"], error["code"], error["type"]) == (
        param,
        code,
        "invalid_request_error",
    ), error


@pytest.mark.parametrize(
    ("option", "param", "code"),
    [
        ({"input": "q9 " * 6000}, "input", "context_length_exceeded"),
        ({"previous_response_id": "resp_0"}, "previous_response_id", "previous_response_not_found"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name", "invalid_value"),
        ({"conversation": "conv_1"}, "conversation", "unsupported_parameter"),
    ],
)
async def test_an_error_of_responses_has_its_own_names(
    gateway: Gateway, option: dict[str, Any], param: str, code: str
) -> None:
    key = {"Authorization": f"Bearer {(await gateway.begin())['api_key']}"}
    body = {"model": MODEL, "input": "x"} | option
    error = (await gateway.http.post("/v1/responses", json=body, headers=key)).json()["error"]
    assert (error["param"], error["code"]) == (param, code), error


async def test_a_body_that_is_no_json_has_no_code(gateway: Gateway) -> None:
    key = {"Authorization": f"Bearer {(await gateway.begin())['api_key']}"}
    error = (await gateway.http.post("/v1/chat/completions", content=b"{", headers=key)).json()[
        "error"
    ]
    assert (error["param"], error["code"]) == (None, None)
