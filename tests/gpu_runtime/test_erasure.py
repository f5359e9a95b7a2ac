"""An episode of a session that runs is erased: no file of the runtime and no copy of its journal has a byte of it."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.journal.erasing import NotErasable, erasable_check
from gpu_runtime.journal.journal import Journal
from gpu_runtime.trajectories import reporter as reporter_module
from gpu_runtime.trajectories import stored_calls
from support.fake_control_plane import FakeControlPlane, error_body
from support.runtime_harness import Running, episode_complete
from support.waiting import eventually

MARK = "a person's own words 7f3a"


async def play_marked(it: Running, task: str, reward: float) -> str:
    """An episode that has MARK wherever an agent can put it; its id."""
    begun = await it.post("/episodes", json={"task": task})
    chat = {"model": "tiny", "messages": [{"role": "user", "content": f"{MARK} said"}]}
    await it.post("/v1/chat/completions", json=chat, headers={"Authorization": f"Bearer {begun['api_key']}"})
    output = {"reward": reward, "metadata": {"note": f"{MARK} noted"}}
    await it.post(f"/episodes/{begun['episode_id']}/end", json={"output": output})
    return begun["episode_id"]


async def erase(it: Running, episode_id: str) -> tuple[int, str]:
    url = f"http://{it.status['address']}/episodes/{episode_id}"
    answer = await it.http.request("DELETE", url, headers={"X-Relay-Key": "relay"})
    return answer.status_code, answer.text


async def get(it: Running, path: str) -> Any:
    return await it.http.get(f"http://{it.status['address']}{path}", headers={"X-Relay-Key": "relay"})


def places_of_mark(plane: FakeControlPlane, volume: Path) -> list[str]:
    """Every file of the volume, and every file of the journal's copy, that has it: deleted pages and logs included."""
    found = [path.name for path in volume.rglob("*") if path.is_file() and MARK.encode() in path.read_bytes()]
    kept = [f"journal/{file['sha256']}" for file in plane.journal]
    return found + [name for name in kept if MARK.encode() in plane.objects[name]]


async def test_an_erased_episode_leaves_no_byte_and_the_session_goes_on(plane, runtime, monkeypatch) -> None:
    monkeypatch.setattr(stored_calls, "SMALL_BYTES", 0)
    monkeypatch.setattr(reporter_module, "ROWS_EVERY_S", 0.05)
    monkeypatch.setattr(reporter_module, "PACK_EVERY_S", 0.0)
    async with runtime(plane) as it:
        begun = await it.post("/episodes", json={"task": "open"})
        status, text = await erase(it, begun["episode_id"])
        assert status == 409 and "end it or abandon it" in text
        trained, waits = await play_marked(it, "a", 0.0), await play_marked(it, f"{MARK} task", 1.0)
        await it.play("a", 1.0)
        await it.play_groups("b")
        await it.stepped(1)
        status, text = await erase(it, trained)
        assert status == 409 and "Order a state checkpoint" in text
        assert places_of_mark(plane, it.volume)
        it.order("ckp_1", "state")
        await it.committed("ckp_1")
        await eventually(lambda: plane.bodies("/v1/runtime/documents") != [])  # the runtime has had the answer
        assert [(await erase(it, name))[0] for name in (trained, waits, trained)] == [204, 204, 204]
        assert places_of_mark(plane, it.volume) == []
        assert [(await get(it, f"/episodes/{name}/calls")).status_code for name in (trained, waits)] == [404, 404]
        listed = {item["episode_id"] for item in (await get(it, "/episodes")).json()["items"]}
        assert len(listed) == 4 and not listed & {trained, waits}
        assert (await get(it, "/batches/1")).status_code == 200, "the others of its batch are read on"
        accounting = (await get(it, "/accounting")).json()
        assert (accounting["begun"], accounting["trained"], accounting["stale"], accounting["waiting"]) == (6, 4, 1, 0)
        it.task.cancel()
    async with runtime(plane) as it:  # and of the next runtime
        assert (await erase(it, "epi_unknown"))[0] == 404
        await it.play_groups("c", "d")
        await it.stepped(2)
        await it.end("stop")
        assert places_of_mark(plane, it.volume) == []
        assert {row["fate"] for row in plane.episodes.values()} >= {"trained"}


async def test_an_erasure_whose_copy_could_not_be_stored_says_so_and_is_completed_by_the_next(plane, runtime) -> None:
    async with runtime(plane) as it:
        waits = await play_marked(it, "a", 1.0)
        plane.answers["/v1/runtime/uploads"] = (409, error_body("conflict"))
        status, text = await erase(it, waits)
        assert status == 503 and "may still have the episode" in text
        del plane.answers["/v1/runtime/uploads"]
        assert (await erase(it, waits))[0] == 204
        await eventually(lambda: places_of_mark(plane, it.volume) == [])
        await it.end("stop")
    assert places_of_mark(plane, it.volume) == []


async def test_an_erasure_whose_caller_gave_up_is_finished_and_the_next_try_uploads_nothing(plane, runtime) -> None:
    went_on = threading.Event()

    def slowly(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        assert body["kind"] != "journal" or went_on.wait(20.0)
        return 200, plane.upload_open(body)

    def copies() -> int:
        return len([body for body in plane.bodies("/v1/runtime/uploads") if body["kind"] == "journal"])

    async with runtime(plane) as it:
        waits = await play_marked(it, "a", 1.0)
        plane.answers["/v1/runtime/uploads"] = slowly
        caller = asyncio.create_task(erase(it, waits))
        await eventually(lambda: copies() == 1)
        caller.cancel()
        went_on.set()
        assert [(await erase(it, waits))[0] for _ in range(2)] == [204, 204]
        assert places_of_mark(plane, it.volume) == [] and copies() == 1
        await it.end("stop")


def test_an_episode_of_the_batch_that_is_trained_has_to_wait(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite3", min_free_bytes=0)
    for name in ("a", "b"):
        episode_complete(journal, name, task="t", reward=1.0)
    journal.batches.record(1, [["a", "b"]], 0)
    with pytest.raises(NotErasable, match="in the batch of step 1"):
        erasable_check(journal.database, journal.episodes.get("a"), committed_step=0)
    journal.batches.step_done(1, {})
    erasable_check(journal.database, journal.episodes.get("a"), committed_step=1)
    journal.close()
