"""What clients of the Responses dialect name instead of sending it again, and the options that they
send by habit.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from support.gateway_harness import MODEL, Gateway, running_gateway

TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
OTHER = TOOL | {"name": "get_time"}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


async def raw(gateway: Gateway, begun: dict[str, Any], **body: Any) -> Any:
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    return await gateway.http.post(
        "/v1/responses", json={"model": MODEL, "input": "hello"} | body, headers=headers
    )


def prompts(gateway: Gateway) -> list[str]:
    return [
        gateway.renderer.decode(request.prompt_ids, special=True)
        for request in gateway.engine.requests
    ]


def result_of(answer: dict[str, Any]) -> dict[str, Any]:
    call_id = next(item["call_id"] for item in answer["output"] if item["type"] == "function_call")
    return {"type": "function_call_output", "call_id": call_id, "output": "sun"}


async def test_a_conversation_goes_on_by_the_id_of_its_last_response(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say(f"let me see\n{CALL}", "Sunny.", "You are welcome.")
    client = gateway.openai(begun).responses
    asked: dict[str, Any] = {
        "model": MODEL,
        "tools": [TOOL],
        "instructions": "Be brief.",
        "max_output_tokens": 100,
    }
    first = await client.create(input="Paris?", **asked)
    result = {"type": "function_call_output", "call_id": first.output[1].call_id, "output": "sun"}
    second = await client.create(input=[result], previous_response_id=first.id, **asked)
    third = await client.create(input="Thanks.", previous_response_id=second.id, **asked)
    assert third.output_text == "You are welcome." and third.previous_response_id == second.id
    seen = gateway.engine.requests
    for earlier, later in zip(seen, seen[1:], strict=False):
        so_far = (*earlier.prompt_ids, *earlier.token_ids)
        assert later.prompt_ids[: len(so_far)] == so_far, "the sampled ids, not their text"
    assert prompts(gateway)[2].count("Be brief.") == 1


async def test_instructions_of_an_earlier_response_are_not_taken_over(gateway: Gateway) -> None:
    begun = await gateway.begin()
    first = (await raw(gateway, begun, instructions="Be brief.")).json()
    await raw(gateway, begun, previous_response_id=first["id"], instructions="Be long.")
    assert "Be brief." not in prompts(gateway)[1] and "Be long." in prompts(gateway)[1]


async def test_items_are_named_by_reference(tmp_path: Path) -> None:
    """As Vercel's AI SDK sends a history: every item of an answer as a reference, with or without
    its type.
    """
    async with running_gateway(
        tmp_path, family="qwen3", max_tokens=200, max_context_length=4096
    ) as gateway:
        begun = await gateway.begin()
        gateway.engine.say(f"<think>\nhm\n</think>\n\nlet me see\n{CALL}", "Sunny.")
        first = (await raw(gateway, begun, tools=[TOOL])).json()
        assert [item["type"] for item in first["output"]] == [
            "reasoning",
            "message",
            "function_call",
        ]
        references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
        del references[1]["type"]
        history = [{"role": "user", "content": "hello"}, *references, result_of(first)]
        second = await raw(gateway, begun, input=history, tools=[TOOL])
        assert second.status_code == 200, second.text
        one, two = gateway.engine.requests
        so_far = (*one.prompt_ids, *one.token_ids)
        assert two.prompt_ids[: len(so_far)] == so_far


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"previous_response_id": "resp_0123"}, "previous_response_id"),
        ({"previous_response_id": "made up"}, "previous_response_id"),
        ({"input": [{"type": "item_reference", "id": "msg_0123"}]}, "input"),
        ({"input": [{"type": "item_reference", "id": "fc"}]}, "input"),
    ],
)
async def test_a_name_of_nothing_is_refused_and_nothing_sampled(
    gateway: Gateway, body, param
) -> None:
    refused = await raw(gateway, await gateway.begin(), **body)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == param, refused.text
    assert gateway.engine.requests == []


async def test_another_episodes_responses_items_and_calls_are_not_to_be_named(
    gateway: Gateway,
) -> None:
    mine, other = await gateway.begin(), await gateway.begin()
    gateway.engine.say(CALL)
    answer = (await raw(gateway, mine, tools=[TOOL])).json()
    bodies: list[dict[str, Any]] = [
        {"previous_response_id": answer["id"]},
        {"input": [{"type": "item_reference", "id": answer["output"][0]["id"]}]},
        {"input": [{"role": "user", "content": "x"}, result_of(answer)]},
    ]
    for body in bodies:
        refused = await raw(gateway, other, **body)
        assert refused.status_code == 400, refused.text
    assert len(gateway.engine.requests) == 1


async def test_options_that_clients_send_by_habit_are_accepted_and_returned(
    gateway: Gateway,
) -> None:
    habits: dict[str, Any] = {
        "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
        "reasoning": {"effort": None, "summary": "auto"},
        "truncation": "auto",
        "max_tool_calls": 3,
        "text": {"verbosity": "low"},
        "store": True,
    }
    answer = await raw(gateway, await gateway.begin(), **habits)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["truncation"], told["max_tool_calls"], told["store"]) == ("auto", 3, True)
    assert told["text"]["verbosity"] == "low" and told["reasoning"] == {"summary": "auto"}


async def test_what_is_too_long_is_refused_where_truncation_is_asked_for(gateway: Gateway) -> None:
    refused = await raw(gateway, await gateway.begin(), input="fox " * 600, truncation="auto")
    assert (
        refused.status_code == 400 and refused.json()["error"]["code"] == "context_length_exceeded"
    )
    assert gateway.engine.requests == []


@pytest.mark.parametrize(
    "asked", [{"include": ["message.output_text.logprobs"]}, {"top_logprobs": 2}]
)
async def test_logprobs_are_those_of_the_text_alone(
    gateway: Gateway, asked: dict[str, Any]
) -> None:
    begun = await gateway.begin()
    gateway.engine.say(f"let me see\n{CALL}")
    answer = (await raw(gateway, begun, tools=[TOOL], max_output_tokens=100, **asked)).json()
    (part,) = answer["output"][0]["content"]
    assert "".join(token["token"] for token in part["logprobs"]) == part["text"] == "let me see"
    (request,) = gateway.engine.requests
    assert [token["logprob"] for token in part["logprobs"]] == request.logprobs[
        : len(part["logprobs"])
    ]
    assert all(
        len(token["top_logprobs"]) == (2 if "top_logprobs" in asked else 0)
        for token in part["logprobs"]
    )


@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_allowed_tools_alone_can_be_called_and_all_are_described(
    gateway: Gateway, mode: str
) -> None:
    begun = await gateway.begin()
    text = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
    gateway.engine.say(text if mode == "required" else f"<tool_call>\n{text}\n</tool_call>")
    choice = {
        "type": "allowed_tools",
        "mode": mode,
        "tools": [{"type": "function", "name": "get_weather"}],
    }
    answer = await raw(gateway, begun, tools=[TOOL, OTHER], tool_choice=choice)
    assert [item["type"] for item in answer.json()["output"]] == ["function_call"], answer.text
    (seen,) = gateway.engine.requests
    assert "get_time" in prompts(gateway)[0] and "get_time" not in str(seen.options.structural_tag)
    assert json.loads(str(seen.options.structural_tag))["type"] == "structural_tag"
    choice["tools"][0]["name"] = "made_up"
    refused = await raw(gateway, begun, tools=[TOOL, OTHER], tool_choice=choice)
    assert refused.status_code == 400 and "made_up" in refused.json()["error"]["message"]
