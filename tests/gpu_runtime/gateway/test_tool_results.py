"""A tool's result belongs to a call of the same conversation."""

from support.gateway_harness import MODEL, Gateway

RESULT = {"role": "tool", "tool_call_id": "call_of_another_episode", "content": "sun"}


async def test_a_result_without_its_call_is_refused_in_every_dialect(gateway: Gateway) -> None:
    key = (await gateway.begin())["api_key"]
    refused = await gateway.raw_chat(key, messages=[{"role": "user", "content": "x"}, RESULT])
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "messages.1.tool_call_id"
    block = {"type": "tool_result", "tool_use_id": "call_of_another_episode", "content": "sun"}
    body = {"model": MODEL, "max_tokens": 8, "messages": [{"role": "user", "content": [block]}]}
    refused = await gateway.http.post("/v1/messages", json=body, headers={"X-Api-Key": key})
    assert refused.status_code == 400 and refused.json()["type"] == "error"
    assert "call_of_another_episode" in refused.json()["error"]["message"]
    assert gateway.engine.requests == []
