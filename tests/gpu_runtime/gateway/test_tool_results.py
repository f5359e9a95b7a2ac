"""A tool's result belongs to a call of the same conversation."""

from support.gateway_harness import MODEL, Gateway

RESULT = {"role": "tool", "tool_call_id": "call_of_another_episode", "content": "sun"}


async def test_a_result_without_its_call_is_refused_in_every_dialect(gateway: Gateway) -> None:
    key = (await gateway.begin())["api_key"]
    refused = await gateway.raw_chat(key, messages=[{"role": "user", "content": "x"}, RESULT])
    assert (
        refused.status_code == 400
        and refused.json()["error"]["param"] == "messages[1].tool_call_id"
    )
    block = {"type": "tool_result", "tool_use_id": "call_of_another_episode", "content": "sun"}
    body = {"model": MODEL, "max_tokens": 8, "messages": [{"role": "user", "content": [block]}]}
    refused = await gateway.http.post("/v1/messages", json=body, headers={"X-Api-Key": key})
    assert refused.status_code == 400 and refused.json()["type"] == "error"
    assert "call_of_another_episode" in refused.json()["error"]["message"]
    assert gateway.engine.requests == []


async def test_qwen_agents_raw_api_names_the_call_in_its_own_way(gateway: Gateway) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": "{}"},
    }
    result = {
        "role": "tool",
        "id": "call_1",
        "extra": {"function_id": "call_1"},
        "content": "sun",
        "name": "get_weather",
    }
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [call]},
        result,
    ]
    key = (await gateway.begin())["api_key"]
    taken = await gateway.raw_chat(key, messages=messages)
    assert taken.status_code == 200, taken.text
    other = await gateway.raw_chat(key, messages=[*messages[:2], result | {"id": "call_2"}])
    assert other.status_code == 400 and "call_2" in other.json()["error"]["message"]
    nameless = await gateway.raw_chat(
        key, messages=[*messages[:2], {"role": "tool", "content": "sun"}]
    )
    assert (
        nameless.status_code == 400
        and nameless.json()["error"]["param"] == "messages[2].tool_call_id"
    )
