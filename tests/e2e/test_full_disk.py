"""A session whose object store has a full disk: it is said where people look, nothing is lost, and
it goes on.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from e2e.loop_server import LoopServer, until
from e2e.playing import check_weights, ledger, play

from support.small_disk import SmallDisk, small_disk

# four episodes make a step
PAIRS = {"grpo_n": 2, "tasks_per_batch": 2, "checkpoint_every_steps": 1}


@pytest.fixture
def server_on_small_disk(tmp_path: Path) -> Iterator[tuple[LoopServer, SmallDisk]]:
    with small_disk(tmp_path / "data" / "s3") as disk:
        server = LoopServer(tmp_path)
        try:
            server.start()
            yield server, disk
        finally:
            server.close()


async def test_a_session_trains_on_while_the_stores_disk_is_full_and_stores_it_all_when_there_is_room(
    server_on_small_disk, tmp_path: Path
) -> None:
    server, disk = server_on_small_disk
    remote = await asyncio.to_thread(server.session, **PAIRS)

    def events(name: str) -> list[dict]:
        return [
            event["data"]
            for event in server.events(remote.id, "event")
            if event["data"]["name"] == name
        ]

    def live() -> list[str]:
        (server.volume(remote.id) / "patience").write_text("1")
        disk.fill(free_share=0.008)
        acknowledged = play(remote, "hail", 8)
        until(lambda: events("store_full"), "the session says so", 40)
        until(lambda: remote.status().policy_version == 2, "training goes on", 40)
        said = events("store_full")[0]
        assert "nearly full" in said["reason"] and str(server.data) in said["hint"]
        until(lambda: events("storage_unavailable"), "it names what was not stored")
        assert all("nearly full" in event["reason"] for event in events("storage_unavailable"))
        assert events("checkpoint_committed") == []
        assert "nearly full" in httpx.get(f"{server.url}/readyz", timeout=90).text
        server.runtime_kill(remote.id)
        acknowledged += play(remote, "hail", 4)
        disk.make_room()
        until(lambda: events("checkpoint_committed"), "there is room again", 60)
        return acknowledged

    acknowledged = await asyncio.to_thread(live)
    tuned = await asyncio.to_thread(remote.download_tuned_model, tmp_path / "tuned", progress=False)
    await asyncio.to_thread(remote.close)
    accounting, fates = ledger(server, remote.id)
    assert {fates[episode_id] for episode_id in acknowledged} == {
        "trained"
    } and accounting.trained == 12
    assert tuned.step == 3
    await check_weights(server, remote.id, remote.config, tmp_path / "tuned")
