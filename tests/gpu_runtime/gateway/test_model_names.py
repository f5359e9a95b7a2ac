"""``model_names = any``: agents that name several models get the session's model for each."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from support.gateway_harness import MODEL, Gateway, running_gateway
from tinkerscript.wire.config import SessionConfig

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
        assert (
            await gateway.http.post("/v1/messages", json=body, headers={"X-Api-Key": key})
        ).status_code == 200
        client = gateway.openai(begun)
        assert (await client.models.retrieve("gpt-4o")).id == "gpt-4o"
        assert MODEL in [model.id async for model in client.models.list()]


async def test_a_map_names_the_agents_of_its_models_and_refuses_every_other_name(
    tmp_path: Path,
) -> None:
    names = {"gpt-4o": "planner", "gpt-4o-mini": "judge"}
    async with running_gateway(tmp_path, model_names=names) as gateway:
        begun = await gateway.begin()
        key = begun["api_key"]
        for name in (MODEL, *names):
            answer = await gateway.raw_chat(key, model=name)
            assert answer.status_code == 200 and answer.json()["model"] == name
        refused = await gateway.raw_chat(key, model="o3")
        assert (
            refused.status_code == 404
            and "'gpt-4o', 'gpt-4o-mini'" in refused.json()["error"]["message"]
        )
        calls = gateway.journal.calls.of_episode(begun["episode_id"])
        assert [call.agent for call in calls] == [None, "planner", "judge"]
        assert {model.id async for model in gateway.openai(begun).models.list()} >= {MODEL, *names}


@pytest.mark.parametrize("names", ["gpt-4o", {}, {"gpt-4o": ""}, {"": "x"}, {"a": 1}, ["a"], None])
def test_a_map_that_is_none_is_refused_in_one_sentence(names: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        SessionConfig(model_names=names)
    [error] = refused.value.errors()
    assert error["loc"] == ("model_names",)


async def test_another_name_is_refused_with_what_to_do(gateway: Gateway) -> None:
    refused = await gateway.raw_chat((await gateway.begin())["api_key"], model="gpt-4o")
    assert refused.status_code == 404 and "model_names='any'" in refused.json()["error"]["message"]
    assert gateway.engine.requests == []
