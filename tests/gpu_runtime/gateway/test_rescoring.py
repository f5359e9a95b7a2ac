"""Another reward for an episode that waits: durable, with what was there before; a trained one
never changes.
"""

import asyncio
from pathlib import Path
from typing import Any

from support.gateway_harness import RELAY_KEY, Gateway, running_gateway
from tinkerscript.wire.episodes import WorkflowOutput


async def play(gateway: Gateway, task: str, reward: float, **begin: Any) -> str:
    begun = await gateway.begin(task=task, **begin)
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
    assert (await gateway.end(begun["episode_id"], reward, metrics={"turns": 3})).status_code == 200
    return begun["episode_id"]


async def rescore(
    gateway: Gateway, rewards: dict[str, float], key_id: str = "key_ada"
) -> dict[str, Any]:
    headers = {"X-Relay-Key": RELAY_KEY, "X-Key-Id": key_id}
    answer = await gateway.http.post("/rescore", json={"rewards": rewards}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def train(gateway: Gateway) -> list[list[float]]:
    """One step of whatever groups are full; the rewards that it trained."""
    batches = gateway.episodes.batches
    batch = await batches.flush_batch()
    assert batch is not None
    with batches.stepping():
        gateway.engine.version = batch.step
        await batches.step_done(batch.step, {})
    return [[episode.reward for episode in group.episodes] for group in batch.groups]


async def test_a_waiting_episode_is_trained_with_its_new_reward_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path) as gateway:
        first, second = [await play(gateway, "t", 1.0) for _ in range(2)]
        told = await rescore(gateway, {first: 0.25, second: 1.0})
        [change] = told["changes"]
        assert (change["episode_id"], change["was"], change["reward"]) == (first, 1.0, 0.25)
        assert told["unchanged"] == [second] and told["refused"] == {}
        assert (await rescore(gateway, {first: 0.25}))["changes"] == [change], (
            "sent again, it changes nothing more"
        )
        anothers = await rescore(gateway, {first: 0.25}, "key_bob")
        assert (anothers["changes"], anothers["unchanged"]) == ([], [first]), (
            "the change was not theirs"
        )
        await rescore(gateway, {first: 0.5})
        view = (await gateway.internal("GET", f"/episodes/{first}")).json()
        assert (
            view["reward"] == 0.5
            and view["metrics"] == {"turns": 3.0}
            and view["fate"] == "accepted"
        )
        # An end whose answer was lost is sent again as it was, and stays harmless; another one is
        # refused as ever.
        assert (await gateway.end(first, 1.0, metrics={"turns": 3})).json()["reward"] == 0.5
        assert (await gateway.end(first, 0.7, metrics={"turns": 3})).status_code == 409
    async with running_gateway(tmp_path) as gateway:
        assert gateway.episodes.batches.waiting[first].output == WorkflowOutput(
            reward=0.5, metrics={"turns": 3}
        )
        changes = gateway.journal.rewards.changes_of(first)
        assert [(one.was, one.reward, caller) for one, caller in changes] == [
            (1.0, 0.25, "key_ada"), (0.25, 0.5, "key_ada"),
        ]  # fmt: skip
        assert await train(gateway) == [[0.5, 1.0]]
        assert (await rescore(gateway, {first: 1.0}))["refused"] == {
            first: "step 1 trained it with its reward, which stays as it was"
        }
        assert (await gateway.internal("GET", f"/episodes/{first}")).json()["reward"] == 0.5


async def test_what_does_not_wait_keeps_its_reward_and_is_named(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tasks_per_batch=1, max_staleness=2) as gateway:
        measured, opened = (
            await play(gateway, "t", 1.0, eval=True),
            (await gateway.begin(task="o"))["episode_id"],
        )
        gone = (await gateway.begin(task="g"))["episode_id"]
        await gateway.internal("POST", f"/episodes/{gone}/abandon", json={"reason": "why not"})
        left, *fixed = [
            await play(gateway, task, reward)
            for task, reward in (("l", 1.0), ("f", 0.0), ("f", 1.0))
        ]
        batch = await gateway.episodes.batches.next_batch()
        assert batch is not None
        told = await rescore(
            gateway,
            {fixed[0]: 9.0, measured: 9.0, opened: 9.0, gone: 9.0, "epi_none": 9.0, left: 9.0},
        )
        assert told["refused"] == {
            fixed[0]: "it is in the batch of step 1, which is fixed",
            measured: "it is an evaluation: its reward was measured, and trains nothing",
            opened: "it is open: it is ended with its reward",
            gone: "it is abandoned: it has no reward",
            "epi_none": "this session has no such episode",
        }
        assert [change["episode_id"] for change in told["changes"]] == [left]
        [again] = (await gateway.episodes.batches.next_batch()).groups
        assert [episode.reward for episode in again.episodes] == [0.0, 1.0]
        for body in (
            {},
            {"rewards": {}},
            {"rewards": {left: "much"}},
            {"rewards": {left: 1.0}, "by": "me"},
        ):
            assert (await gateway.internal("POST", "/rescore", json=body)).status_code == 400, body


async def test_a_new_reward_gives_a_level_group_something_to_learn(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, dynamic_sampling=True, tasks_per_batch=2) as gateway:
        first, _ = [await play(gateway, "t", 1.0) for _ in range(2)]
        await rescore(gateway, {first: 0.0})
        assert await train(gateway) == [[0.0, 1.0]]


async def test_a_new_reward_leaves_a_group_that_was_looked_at_nothing_to_learn(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path, dynamic_sampling=True, tasks_per_batch=2) as gateway:
        first, _ = [await play(gateway, "t", reward) for reward in (0.0, 1.0)]
        coming = asyncio.create_task(gateway.episodes.batches.next_batch())
        await play(gateway, "u", 0.0)  # meanwhile the group is found to teach something
        await rescore(gateway, {first: 1.0})
        for task, reward in (("u", 1.0), ("v", 0.0), ("v", 1.0)):
            await play(gateway, task, reward)
        batch = await asyncio.wait_for(coming, 25)
        assert [group.key for group in batch.groups] == ["u", "v"]
