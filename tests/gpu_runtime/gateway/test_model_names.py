"""``model_names = any``: agents that name several models get the session's model for each."""

from pathlib import Path

from support.gateway_harness import MODEL, Gateway, running_gateway

HELLO = [{"role": "user", "content": "hello"}]


async def test_any_name_is_the_sessions_model_and_labels_its_calls(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, model_names="any") as gateway:
        begun = await gateway.begin()
        key = begun["api_key"]
        for name in (MODEL, "gpt-4o", "gpt-4o-mini"):
            answer = await gateway.raw_chat(key, model=name)
            assert answer.status_code == 200 and answer.json()["model"] == name
        labelled = await gateway.raw_chat(key, {"X-Agent": "judge"}, model="gpt-4o")
        assert labelled.status_code == 200
        calls = gateway.journal.calls.of_episode(begun["episode_id"])
        assert [call.agent for call in calls] == [None, "gpt-4o", "gpt-4o-mini", "judge"]
        body = {"model": "claude-opus-4-5", "max_tokens": 8, "messages": HELLO}
        assert (await gateway.http.post("/v1/messages", json=body, headers={"X-Api-Key": key})).status_code == 200
        client = gateway.openai(begun)
        assert (await client.models.retrieve("gpt-4o")).id == "gpt-4o"
        assert MODEL in [model.id async for model in client.models.list()]


async def test_another_name_is_refused_with_what_to_do(gateway: Gateway) -> None:
    refused = await gateway.raw_chat((await gateway.begin())["api_key"], model="gpt-4o")
    assert refused.status_code == 404 and "model_names='any'" in refused.json()["error"]["message"]
    assert gateway.engine.requests == []
