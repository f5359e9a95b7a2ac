"""One heartbeat keeps all open episodes of a client; one that sends none is soon taken for gone."""

import time
from pathlib import Path

from support.gateway_harness import Gateway, running_gateway
from support.waiting import FakeClock


async def test_one_heartbeat_for_many_episodes_names_those_that_are_over(gateway: Gateway) -> None:
    kept, ended = await gateway.begin(), await gateway.begin()
    await gateway.chat(ended)
    await gateway.end(ended["episode_id"])
    gateway.episodes.open.get(kept["episode_id"]).warning = "what looks wrong"
    names = [kept["episode_id"], ended["episode_id"], "epi_unknown"]
    result = await gateway.internal("POST", "/heartbeats", json={"episode_ids": names})
    assert result.json() == {"over": names[1:], "warnings": {names[0]: "what looks wrong"}}
    for wrong in ([], ["epi"] * 501, "epi", [1]):
        assert (
            await gateway.internal("POST", "/heartbeats", json={"episode_ids": wrong})
        ).status_code == 400
    assert (await gateway.http.post("/heartbeats", json={"episode_ids": names})).status_code == 401


async def test_an_episode_of_a_client_that_is_silent_for_thirty_seconds_counts_as_gone(
    tmp_path: Path,
) -> None:
    clock = FakeClock(time.time())
    async with running_gateway(tmp_path, now=clock) as gateway:
        alive, _silent = await gateway.begin(), await gateway.begin()
        clock.now += 20
        await gateway.internal("POST", "/heartbeats", json={"episode_ids": [alive["episode_id"]]})
        clock.now += 11
        live = {episode.id for episode in gateway.episodes.open.all() if episode.is_live(clock.now)}
        assert live == {alive["episode_id"]}
