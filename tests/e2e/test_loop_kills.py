"""Whatever is killed, the loop ends well: every acknowledged episode is accounted for and every
batch trained once.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from e2e.loop_server import LoopServer, until
from e2e.playing import check_weights, execute_agent, ledger, play

from tinkerscript import TinkerScript

PAIRS = {"grpo_n": 2, "tasks_per_batch": 2}  # four episodes make a step


async def check_end(
    server: LoopServer, remote: TinkerScript, folder: Path, acknowledged: list[str]
) -> None:
    """Download and close; what was acknowledged is trained, but for one that found no partner for
    its group.
    """
    tuned = await asyncio.to_thread(remote.download_tuned_model, folder, progress=False)
    await asyncio.to_thread(remote.close)
    accounting, fates = ledger(server, remote.id)
    assert len(set(acknowledged)) == len(acknowledged)
    alone = [episode_id for episode_id in acknowledged if fates[episode_id] != "trained"]
    assert len(alone) == len(acknowledged) % 2, "the last export took every full group"
    assert {fates[episode_id] for episode_id in alone} <= {"accepted", "stale"}
    assert accounting.trained == len(acknowledged) - len(alone)
    assert accounting.begun == len(acknowledged) + accounting.abandoned
    metrics = [event["data"]["step"] for event in server.events(remote.id, "metric")]
    assert metrics == list(range(1, tuned.step + 1))
    await check_weights(server, remote.id, remote.config, folder)


@pytest.mark.smoke
async def test_a_runtime_killed_in_a_step_in_an_episode_and_in_a_call_costs_nothing(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    remote = await asyncio.to_thread(loop_server.session, **PAIRS, checkpoint_every_steps=1)
    volume = loop_server.volume(remote.id)
    acknowledged = await asyncio.to_thread(play, remote, "rain", 4)

    (volume / "hold-optim_step-2").touch()
    acknowledged += await asyncio.to_thread(play, remote, "rain", 4)
    await asyncio.to_thread(
        until, (volume / "at-optim_step-2").exists, "the second step is under way"
    )
    loop_server.runtime_kill(remote.id)
    (volume / "hold-optim_step-2").unlink()

    acknowledged += await asyncio.to_thread(play, remote, "rain", 3)
    episode = await asyncio.to_thread(remote.begin_episode, "rain")
    await asyncio.to_thread(execute_agent, "rain", episode)
    (volume / "hold-generate").touch()
    with ThreadPoolExecutor(1) as agent:
        call = agent.submit(execute_agent, "rain", episode)
        await asyncio.to_thread(until, (volume / "at-generate").exists, "a call is in the engine")
        loop_server.runtime_kill(remote.id)
        (volume / "hold-generate").unlink()
        output = await asyncio.wrap_future(call)
    view = await asyncio.to_thread(remote.end_episode, output, episode=episode)
    assert view.calls == 2, "the episode, its key and its first call outlived the runtime"
    acknowledged.append(view.episode_id)

    moves = [event["data"] for event in loop_server.events(remote.id, "state")]
    assert sum((move["from"], move["to"]) == ("ready", "queued") for move in moves) == 2
    await check_end(loop_server, remote, tmp_path / "tuned", acknowledged)


@pytest.mark.smoke
async def test_the_loop_goes_on_while_the_server_is_killed_and_then_restarted(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    remote = await asyncio.to_thread(loop_server.session, **PAIRS, checkpoint_every_steps=2)
    acknowledged: list[str] = []
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            try:
                output = execute_agent("snow", remote.begin_episode(task="snow"))
                acknowledged.append(remote.end_episode(output).episode_id)
            except Exception:  # noqa: BLE001 - the printed loop: an episode whose agent failed is abandoned
                print("Episode abandoned")

    with ThreadPoolExecutor(1) as laptop:
        looping = laptop.submit(loop)
        try:
            for end in (loop_server.kill, loop_server.terminate):
                await acknowledge_more(acknowledged, looping)
                await asyncio.to_thread(end)
                await asyncio.to_thread(loop_server.start)
            await acknowledge_more(acknowledged, looping)
        finally:
            stop.set()
        await asyncio.wrap_future(looping)
    reasons = [event["data"]["reason"] for event in loop_server.events(remote.id, "state")]
    assert "the server was stopped" in reasons and not [
        reason for reason in reasons if "process ended" in reason
    ]
    await check_end(loop_server, remote, tmp_path / "tuned", acknowledged)


async def acknowledge_more(acknowledged: list[str], looping) -> None:
    """Wait until six more episodes are acknowledged: a step and a half."""
    goal = len(acknowledged) + 6
    await asyncio.to_thread(
        until, lambda: len(acknowledged) >= goal or looping.done(), "the loop goes on", 60
    )
    assert not looping.done()


async def test_a_store_that_is_killed_is_recorded_and_made_up_for(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    remote = await asyncio.to_thread(loop_server.session, **PAIRS, checkpoint_every_steps=1)
    (loop_server.volume(remote.id) / "patience").write_text("1")
    with loop_server.without_store():
        acknowledged = await asyncio.to_thread(play, remote, "hail", 4)
        names = lambda: [event["data"]["name"] for event in loop_server.events(remote.id, "event")]  # noqa: E731
        await asyncio.to_thread(
            until, lambda: "storage_unavailable" in names(), "the session says so", 40
        )
        assert "checkpoint_committed" not in names()
    (loop_server.volume(remote.id) / "patience").write_text("60")
    acknowledged += await asyncio.to_thread(play, remote, "hail", 4)
    await asyncio.to_thread(
        until, lambda: "checkpoint_committed" in names(), "the store is back", 60
    )
    loop_server.runtime_kill(remote.id)
    acknowledged += await asyncio.to_thread(play, remote, "hail", 4)
    await check_end(loop_server, remote, tmp_path / "tuned", acknowledged)
