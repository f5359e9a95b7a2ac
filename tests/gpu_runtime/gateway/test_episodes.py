"""The ledger of episodes through the internal routes, and what the training loop takes from it."""

import asyncio
import threading
import time
from pathlib import Path

import httpx
import pytest

from gpu_runtime.episodes.open_episodes import LIVE_S
from gpu_runtime.errors import DiskFull
from gpu_runtime.refusals import NotAdmitted
from support.gateway_harness import RELAY_KEY, Gateway, running_gateway
from support.waiting import FakeClock, calls_watch, eventually
from tinkerscript.wire import episode_key
from tinkerscript.wire.episodes import EpisodeBegin


async def play(gateway: Gateway, task: str | None = "t", reward: float = 1.0, **begin) -> dict:
    """A whole episode; answers its view."""
    begun = await gateway.begin(**({"task": task} if task else {}), **begin)
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
    answer = await gateway.end(begun["episode_id"], reward)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def step(gateway: Gateway) -> int:
    """One training step as the training loop does it."""
    async with asyncio.timeout(25):
        batch = await gateway.episodes.batches.next_batch()
    with gateway.episodes.batches.stepping():
        gateway.engine.version = batch.step
        await gateway.episodes.batches.step_done(batch.step, {"loss": 0.0})
    return batch.step


async def test_begin_returns_all_that_an_agent_needs(gateway: Gateway) -> None:
    begun = await gateway.begin(task="t", timeout_s=60)
    assert begun["base_url"] == "http://server.test/openai/v1"
    assert begun["model"] == "tiny-model"
    assert 55 < begun["deadline_s"] <= 60
    claim = episode_key.verify(begun["api_key"], bytes.fromhex("ab" * 32), now=time.time())
    assert claim.episode_id == begun["episode_id"]


async def test_end_returns_what_became_of_the_episode_and_repeats_it(gateway: Gateway) -> None:
    begun = await gateway.begin(task="t")
    await gateway.chat(begun)
    said = {
        "is_success": True,
        "metrics": {"turns": 3},
        "metadata": {"a": [1]},
        "reward_parts": {"format": 0.5},
    }
    first = await gateway.end(begun["episode_id"], 0.5, **said)
    assert (first.json()["fate"], first.json()["reward"], first.json()["timelines"]) == (
        "accepted",
        0.5,
        1,
    )
    assert first.json()["metrics"] == {"turns": 3.0, "reward/format": 0.5}
    again = await gateway.end(begun["episode_id"], 0.5, **said)
    assert (again.status_code, again.json()) == (200, first.json())
    other = await gateway.end(begun["episode_id"], 0.9)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")


async def test_empty_episode_is_an_error_and_stays_open(gateway: Gateway) -> None:
    begun = await gateway.begin()
    answer = await gateway.end(begun["episode_id"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "empty_episode")
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
    assert (await gateway.end(begun["episode_id"])).status_code == 200


@pytest.mark.parametrize("reward", ["NaN", "Infinity", '"one"', "null", "[]"])
async def test_bad_reward_is_refused_and_nothing_lost(gateway: Gateway, reward: str) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun)
    path = f"/episodes/{begun['episode_id']}/end"
    answer = await gateway.internal("POST", path, content=f'{{"output": {{"reward": {reward}}}}}')
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_reward")
    assert (await gateway.end(begun["episode_id"])).status_code == 200


async def test_unknown_fields_are_refused(gateway: Gateway) -> None:
    answer = await gateway.internal("POST", "/episodes", json={"taks": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert "taks" in answer.json()["error"]["message"]


async def test_abandon_is_idempotent_and_refuses_a_completed_episode(gateway: Gateway) -> None:
    begun = await gateway.begin()
    path = f"/episodes/{begun['episode_id']}/abandon"
    first = await gateway.internal("POST", path, json={"reason": "tool crashed"})
    assert (first.json()["state"], first.json()["reason"]) == ("abandoned", "tool crashed")
    assert (await gateway.internal("POST", path, json={"reason": "other"})).json() == first.json()
    done = await play(gateway)
    answer = await gateway.internal("POST", f"/episodes/{done['episode_id']}/abandon", json={})
    assert answer.status_code == 409
    assert (await gateway.accounting())["abandoned_by_reason"] == {"tool crashed": 1}


async def test_closed_key_is_410_for_ever_everywhere(gateway: Gateway) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun)
    await gateway.end(begun["episode_id"])
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 410
    assert (await gateway.http.get("/v1/models", headers=headers)).status_code == 410
    beat = await gateway.internal("POST", f"/episodes/{begun['episode_id']}/heartbeat")
    assert (beat.status_code, beat.json()["error"]["code"]) == (410, "episode_closed")
    assert len(gateway.journal.calls.of_episode(begun["episode_id"])) == 1


async def test_forged_foreign_and_missing_keys_are_401(gateway: Gateway) -> None:
    begun = await gateway.begin()
    claim = episode_key.read(begun["api_key"])
    forged = episode_key.sign(b"other key", claim)
    foreign = episode_key.sign(
        bytes.fromhex("ab" * 32),
        episode_key.EpisodeClaim("ses_other", claim.episode_id, claim.expires_at),
    )
    for key in (forged, foreign, "tml-ep-x", "", "sk-something", begun["api_key"][:-4] + "AAAA"):
        answer = await gateway.raw_chat(key) if key else await gateway.http.get("/v1/models")
        assert answer.status_code == 401, key
        assert answer.json()["error"]["code"] == "invalid_api_key"


async def test_the_key_of_an_episode_names_the_api_key_that_begins_it(gateway: Gateway) -> None:
    async def begun_with(**headers: str) -> str:
        answer = await gateway.http.post(
            "/episodes", json={}, headers={"X-Relay-Key": RELAY_KEY, **headers}
        )
        return answer.json()["api_key"]

    assert episode_key.read(await begun_with(**{"X-Key-Id": "key_1"})).key_id == "key_1"
    assert episode_key.read(await begun_with()).key_id == ""
    same = {"Idempotency-Key": "once", "X-Key-Id": "key_1"}
    key = await begun_with(**same)
    assert await begun_with(**same) == key
    assert (await gateway.raw_chat(key)).status_code == 200


async def test_internal_paths_need_the_relay_key(gateway: Gateway) -> None:
    begun = await gateway.begin()
    for headers in ({}, {"X-Relay-Key": "wrong"}, {"Authorization": f"Bearer {begun['api_key']}"}):
        for method, path in (("POST", "/episodes"), ("GET", "/accounting"), ("GET", "/episodes")):
            answer = await gateway.http.request(method, path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")


async def test_unknown_paths_and_ids_are_404_in_their_dialect(gateway: Gateway) -> None:
    assert (await gateway.internal("GET", "/episodes/epi_none")).json()["error"][
        "code"
    ] == "not_found"
    assert (await gateway.internal("PUT", "/episodes")).json()["error"][
        "code"
    ] == "method_not_allowed"
    assert "message" in (await gateway.http.post("/v1/embeddings")).json()["error"]


async def test_repeated_begin_with_one_idempotency_key_is_one_episode(gateway: Gateway) -> None:
    headers = {"X-Relay-Key": RELAY_KEY, "Idempotency-Key": "k1"}
    answers = await asyncio.gather(
        *[gateway.http.post("/episodes", json={}, headers=headers) for _ in range(4)]
    )
    assert len({answer.json()["episode_id"] for answer in answers}) == 1
    assert (await gateway.accounting())["begun"] == 1


async def test_superseded_episode_is_abandoned_by_name(gateway: Gateway) -> None:
    first = await gateway.begin()
    await gateway.begin(supersedes=first["episode_id"])
    assert (await gateway.raw_chat(first["api_key"])).status_code == 410
    assert (await gateway.accounting())["abandoned_by_reason"] == {"superseded": 1}


async def test_list_is_paged_newest_first(gateway: Gateway) -> None:
    ids = [(await gateway.begin())["episode_id"] for _ in range(3)]
    page = (await gateway.internal("GET", "/episodes?limit=2")).json()
    assert [item["episode_id"] for item in page["items"]] == [ids[2], ids[1]]
    rest = (await gateway.internal("GET", f"/episodes?limit=2&cursor={page['next_cursor']}")).json()
    assert [item["episode_id"] for item in rest["items"]] == [ids[0]]
    assert rest["next_cursor"] is None
    for query in ("limit=0", "limit=x", "cursor=-1", "cursor=9e9", f"cursor={'9' * 40}"):
        assert (await gateway.internal("GET", f"/episodes?{query}")).status_code == 400


async def test_idle_episode_expires_and_a_heartbeat_keeps_it(tmp_path: Path) -> None:
    clock = FakeClock(time.time())
    async with running_gateway(tmp_path, now=clock, episode_idle_timeout_s=100) as gateway:
        kept, lost = await gateway.begin(), await gateway.begin()
        assert kept["idle_timeout_s"] == 100, "by which the client beats"
        clock.now += 60
        assert (
            await gateway.internal("POST", f"/episodes/{kept['episode_id']}/heartbeat")
        ).status_code == 200
        clock.now += 60
        assert (await gateway.raw_chat(lost["api_key"])).status_code == 410
        assert (await gateway.raw_chat(kept["api_key"])).status_code == 200
        await eventually(
            lambda: gateway.journal.episodes.get(lost["episode_id"]).state.value == "expired"
        )
        assert gateway.journal.episodes.get(lost["episode_id"]).reason == "idle"
        assert (await gateway.accounting())["expired"] == 1


async def test_deadline_ends_an_episode_whatever_it_does(tmp_path: Path) -> None:
    clock = FakeClock(time.time())
    async with running_gateway(tmp_path, now=clock) as gateway:
        begun = await gateway.begin(timeout_s=50)
        gateway.engine.hang = True
        call = asyncio.ensure_future(gateway.raw_chat(begun["api_key"]))
        await eventually(lambda: gateway.engine.requests)
        clock.now += 51
        assert (await call).status_code == 503
        await eventually(
            lambda: gateway.journal.episodes.get(begun["episode_id"]).state.value == "expired"
        )
        assert gateway.journal.episodes.get(begun["episode_id"]).reason == "deadline"
        assert (await gateway.raw_chat(begun["api_key"])).status_code == 410


async def test_restart_keeps_open_episodes_open_and_all_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path) as gateway:
        begun = await gateway.begin(task="t")
        await gateway.chat(begun)
        done = await play(gateway)
    async with running_gateway(tmp_path) as gateway:
        assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
        assert (await gateway.end(begun["episode_id"])).json()["fate"] == "accepted"
        assert (await gateway.internal("GET", f"/episodes/{done['episode_id']}")).json() == done
        assert (await gateway.raw_chat(begun["api_key"])).status_code == 410


async def test_what_is_being_written_is_on_disk_when_the_episodes_are_closed(
    gateway: Gateway,
) -> None:
    disk = threading.Event()  # the journal is copied to the store next
    writing = asyncio.ensure_future(gateway.journal.run(disk.wait, 20))
    closing = asyncio.ensure_future(gateway.episodes.close())
    for _ in range(20):
        await asyncio.sleep(0)
    is_early = closing.done()
    disk.set()
    await asyncio.gather(writing, closing)
    assert not is_early


async def test_full_disk_is_507_and_nothing_is_half_done(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await gateway.begin()

    def full() -> None:
        raise DiskFull("the test took all the room")

    with monkeypatch.context() as patch:
        patch.setattr(gateway.journal.database, "check_room", full)
        answer = await gateway.internal("POST", "/episodes", json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk_full")
        call = await gateway.raw_chat(begun["api_key"])
        assert (call.status_code, call.json()["error"]["code"]) == (507, "disk_full")
    assert gateway.engine.requests == [], "nothing is sampled that could not be kept"
    assert (await gateway.accounting())["begun"] == 1
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200


async def test_group_without_a_task_is_the_first_prompt(gateway: Gateway) -> None:
    same = [await play(gateway, task=None) for _ in range(2)]
    other = await gateway.begin()
    await gateway.chat(other, "another question")
    assert same[0]["group_key"] == same[1]["group_key"]
    assert (await gateway.end(other["episode_id"])).json()["group_key"] != same[0]["group_key"]


async def test_a_batch_has_as_many_groups_of_as_many_episodes_as_are_asked_for(
    tmp_path: Path,
) -> None:
    sizes = {"grpo_n": 3, "tasks_per_batch": 2, "max_staleness": 1}
    async with running_gateway(tmp_path, **sizes) as gateway:
        batches = gateway.episodes.batches
        for task in "aaabb":
            await play(gateway, task)
            assert batches.pending() == 0
        for task in "bccc":  # a third group waits for the next batch
            await play(gateway, task)
            assert batches.pending() == 1
        batch = await batches.next_batch()
        tasks = [[episode.record.task for episode in group.episodes] for group in batch.groups]
        assert tasks == [["a"] * 3, ["b"] * 3]


async def test_batch_is_exact_journaled_and_reported(gateway: Gateway) -> None:
    for task in ("a", "b"):
        for reward in (0.0, 1.0):
            await play(gateway, task, reward)
    batch = await gateway.episodes.batches.next_batch()
    assert [[episode.reward for episode in group.episodes] for group in batch.groups] == [
        [0.0, 1.0]
    ] * 2
    assert gateway.journal.batches.get(1).groups == tuple(
        tuple(episode.record.id for episode in group.episodes) for group in batch.groups
    )
    assert [len(episode.calls) for episode in batch.episodes] == [1] * 4
    await gateway.episodes.batches.step_done(1, {"loss": 0.1})
    view = (await gateway.internal("GET", f"/episodes/{batch.episodes[0].record.id}")).json()
    assert (view["fate"], view["trained_step"]) == ("trained", 1)
    assert (await gateway.accounting())["trained"] == 4


async def test_undone_batch_is_returned_again_after_a_restart(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        for task in ("a", "a", "b", "b"):
            await play(gateway, task)
        first = await gateway.episodes.batches.next_batch()
    async with running_gateway(tmp_path) as gateway:
        again = await gateway.episodes.batches.next_batch()
        assert again == first
        assert await gateway.episodes.batches.batch(1) == first
        assert (await gateway.accounting())["waiting"] == 4


async def test_wait_for_a_batch_that_is_given_up_loses_nothing(gateway: Gateway) -> None:
    waiting = asyncio.ensure_future(gateway.episodes.batches.next_batch())
    for task in ("a", "a", "b"):
        await play(gateway, task)
    waiting.cancel()
    await play(gateway, "b")
    assert await step(gateway) == 1


async def test_flush_trains_full_groups_only(gateway: Gateway) -> None:
    assert await gateway.episodes.batches.flush_batch() is None
    for task in ("a", "a", "b"):
        await play(gateway, task)
    batch = await gateway.episodes.batches.flush_batch()
    assert [group.key for group in batch.groups] == ["a"]
    await gateway.episodes.batches.step_done(batch.step, {})
    assert await gateway.episodes.batches.flush_batch() is None


async def test_flushed_batch_is_not_returned_to_one_who_waits_for_a_full_one(
    gateway: Gateway,
) -> None:
    batches = gateway.episodes.batches
    waiting = asyncio.ensure_future(batches.next_batch())
    for task in ("a", "a", "b"):
        await play(gateway, task)
    last = await gateway.begin(task="b")
    await gateway.chat(last)
    with batches.stepping():
        flushed = await batches.flush_batch()
        await gateway.end(last["episode_id"])  # wakes the one that waits
        assert await batches.flush_batch() == flushed, "one batch at a time"
        gateway.engine.version = flushed.step
        await batches.step_done(flushed.step, {})
    for task in ("a", "a", "b", "b"):
        await play(gateway, task)
    assert (await asyncio.wait_for(waiting, 25)).step == 2


async def test_refused_step_makes_its_episodes_stale_and_goes_on(gateway: Gateway) -> None:
    for task in ("a", "a", "b", "b"):
        await play(gateway, task)
    batch = await gateway.episodes.batches.next_batch()
    await gateway.episodes.batches.step_refused(batch.step, "NaN gradient")
    assert (await gateway.accounting())["stale"] == 4
    for task in ("a", "a", "b", "b"):
        await play(gateway, task)
    assert await step(gateway) == 1


async def test_eval_is_counted_and_never_trained(gateway: Gateway) -> None:
    views = [await play(gateway, "a", eval=True) for _ in range(4)]
    assert {view["fate"] for view in views} == {"eval"}
    assert gateway.episodes.batches.waiting == {}
    assert (await gateway.accounting())["eval"] == 4


async def test_episode_of_a_silent_client_is_not_waited_for_and_is_reported_as_stale(
    tmp_path: Path,
) -> None:
    clock = FakeClock(time.time())
    async with running_gateway(tmp_path, max_staleness=0, tasks_per_batch=1, now=clock) as gateway:
        late = await gateway.begin(task="c")
        await gateway.chat(late)
        clock.now += LIVE_S
        for _ in range(2):
            await play(gateway, "a")
        await step(gateway)
        await gateway.chat(late)
        (opened,) = gateway.episodes.open.all()
        assert opened.oldest_version(1) == 0, "that of its oldest token"
        view = (await gateway.end(late["episode_id"])).json()
        assert (view["fate"], view["policy_version_first"], view["policy_version_last"]) == (
            "stale",
            0,
            1,
        )
        later = await play(gateway, "c")
        assert later["fate"] == "accepted"
        assert (await gateway.accounting())["stale"] == 1


async def test_surplus_within_the_staleness_window_is_trained(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, max_staleness=1, tasks_per_batch=1) as gateway:
        for _ in range(2):
            await play(gateway, "a")
        await play(gateway, "b")
        await step(gateway)
        await play(gateway, "b")
        assert await step(gateway) == 2
        assert (await gateway.accounting())["trained"] == 4


async def test_begin_waits_while_a_step_runs_and_is_then_refused_with_retry_after(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task in ("a", "a", "b", "b"):
        await play(gateway, task)
    with pytest.raises(Exception, match="step") as refused:
        await gateway.episodes.begin(EpisodeBegin(), hold_s=0.05)
    assert (refused.value.status, refused.value.retry_after_s) == (503, 0)
    begins = calls_watch(monkeypatch, gateway.episodes, "begin")
    held = asyncio.ensure_future(gateway.begin())
    await eventually(lambda: begins.begun)
    assert not held.done()
    await step(gateway)
    assert (await held)["policy_version"] == 1


async def test_both_clocks_are_shown(tmp_path: Path) -> None:
    clock = FakeClock(time.time())
    async with running_gateway(tmp_path, now=clock, episode_idle_timeout_s=50) as gateway:
        began = clock.now
        begun = await gateway.begin(timeout_s=200)
        path = f"/episodes/{begun['episode_id']}"

        async def clocks(
            method: str = "GET", path: str = path
        ) -> tuple[float | None, float | None]:
            view = (await gateway.internal(method, path)).json()
            return tuple(
                view[name] and pytest.approx(view[name] - began)
                for name in ("deadline_at", "idle_at")
            )

        assert await clocks() == (200, 50)
        clock.now += 30
        assert await clocks("POST", path + "/heartbeat") == (200, 80)
        gateway.engine.hang = True
        call = asyncio.ensure_future(gateway.raw_chat(begun["api_key"]))
        await eventually(lambda: gateway.engine.requests)
        assert await clocks() == (200, None), "a call in flight is not idleness"
        call.cancel()
        await eventually(lambda: gateway.engine.requests[0].cancelled)
        await gateway.internal("POST", path + "/abandon", json={})
        assert await clocks() == (200, None)


async def test_client_that_goes_away_while_held_leaves_no_episode(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task in ("a", "a", "b", "b"):
        await play(gateway, task)
    begins = calls_watch(monkeypatch, gateway.episodes, "begin")
    with pytest.raises(httpx.ReadTimeout):
        await gateway.http.post(
            "/episodes", json={}, headers={"X-Relay-Key": RELAY_KEY}, timeout=0.2
        )
    await eventually(lambda: begins.over == 1)
    await step(gateway)
    assert (await gateway.accounting())["begun"] == 4


async def test_calls_wait_while_a_strict_step_runs(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await gateway.begin()
    waits = calls_watch(monkeypatch, gateway.episodes.batches, "wait_for_calls")
    with gateway.episodes.batches.stepping():
        call = asyncio.ensure_future(gateway.raw_chat(begun["api_key"]))
        await eventually(lambda: waits.begun)
        assert gateway.engine.requests == []
        gateway.engine.version = 1
    assert (await call).json()["policy_version"] == 1


async def test_calls_go_on_during_a_step_where_staleness_is_allowed(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, max_staleness=1) as gateway:
        begun = await gateway.begin()
        with gateway.episodes.batches.stepping():
            assert (await gateway.raw_chat(begun["api_key"])).status_code == 200


async def test_training_ends_at_max_steps_and_episodes_are_still_served(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, max_steps=1, tasks_per_batch=1) as gateway:
        for _ in range(2):
            await play(gateway, "a")
        assert await step(gateway) == 1
        assert await gateway.episodes.batches.next_batch() is None
        for _ in range(3):
            assert (await play(gateway, "a"))["fate"] == "accepted"


@pytest.mark.parametrize(
    ("workers", "with_task"), [(1, True), (1, False), (5, True), (16, False), (16, True)]
)
async def test_strict_loop_never_deadlocks_and_wastes_no_episode(
    tmp_path: Path, workers: int, with_task: bool
) -> None:
    """The loop of any number of workers over tasks x attempts: every episode is trained on the
    version it sampled.
    """
    async with running_gateway(tmp_path, grpo_n=4, tasks_per_batch=2, max_staleness=0) as gateway:

        async def begin(task: str) -> dict:
            # In process: the workers arrive in the order of the loop.
            begun = await gateway.episodes.begin(
                EpisodeBegin(task=task if with_task else None), hold_s=30
            )
            return begun.model_dump()

        await _run_loop(gateway, workers, begin)
        await eventually(lambda: gateway.journal.batches.latest_step() == 3, timeout_s=20)
        found = await gateway.accounting()
        assert (found["trained"], found["stale"]) == (24, 0)


async def test_strict_loop_out_of_order_ends_well_and_balances(tmp_path: Path) -> None:
    """Without tasks no one knows an episode's group before its first call: some may be left over,
    none is lost.
    """
    async with running_gateway(tmp_path, grpo_n=4, tasks_per_batch=2, max_staleness=0) as gateway:
        await _run_loop(gateway, 16, lambda task: gateway.begin())
        found = await gateway.accounting()
        assert found["begun"] == 24
        assert found["open"] == 0


async def _run_loop(gateway: Gateway, workers: int, begin) -> None:
    jobs = asyncio.Queue()
    for epoch in range(3):
        for task in ("a", "b"):
            for attempt in range(4):
                jobs.put_nowait((task, attempt + epoch))

    async def worker() -> None:
        while not jobs.empty():
            task, reward = jobs.get_nowait()
            begun = await begin(task)
            answer = await gateway.raw_chat(
                begun["api_key"], messages=[{"role": "user", "content": task}]
            )
            assert answer.status_code == 200
            assert (await gateway.end(begun["episode_id"], reward)).status_code == 200

    trainer = asyncio.ensure_future(_train_forever(gateway))
    try:
        async with asyncio.timeout(60):
            await asyncio.gather(*[worker() for _ in range(workers)])
        await eventually(lambda: not gateway.episodes.batches.pending())
    finally:
        trainer.cancel()


async def test_silent_episodes_of_a_dead_client_do_not_hold_others_for_long(tmp_path: Path) -> None:
    clock = FakeClock(time.time())
    async with running_gateway(tmp_path, now=clock) as gateway:
        for _ in range(4):
            await gateway.begin()
        with pytest.raises(Exception, match="4 episodes are begun"):
            await gateway.episodes.begin(EpisodeBegin(), hold_s=0)
        clock.now += 80
        assert await gateway.episodes.begin(EpisodeBegin(), hold_s=0)


async def _train_forever(gateway: Gateway) -> None:
    while True:
        await step(gateway)


async def test_call_that_waits_too_long_for_a_step_is_refused_with_retry_after(
    gateway: Gateway,
) -> None:
    with gateway.episodes.batches.stepping(), pytest.raises(NotAdmitted):
        await gateway.episodes.batches.wait_for_calls(gate_s=0.02)
