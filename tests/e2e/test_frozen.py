"""A frozen engine, a frozen trainer, a frozen main loop: each is ended with its stacks in the
events, and recovered.
"""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from e2e.loop_server import LoopServer, until
from e2e.playing import check_weights, execute_agent, play

STUCK_S = 1.0
PAIRS = {"grpo_n": 2, "tasks_per_batch": 2}


def events(server: LoopServer, session_id: str, name: str) -> list[dict]:
    return [
        event["data"]
        for event in server.events(session_id, "event")
        if event["data"]["name"] == name
    ]


def moves(server: LoopServer, session_id: str, source: str, target: str) -> int:
    moved = [event["data"] for event in server.events(session_id, "state")]
    return sum((move["from"], move["to"]) == (source, target) for move in moved)


async def frozen(server: LoopServer, session_id: str) -> dict:
    """The event that says so, once the session has been started again."""
    await asyncio.to_thread(
        until, lambda: events(server, session_id, "stuck"), "the freeze is on the record", 40
    )
    await asyncio.to_thread(
        until, lambda: moves(server, session_id, "loading", "ready") == 2, "it is back", 60
    )
    (event,) = events(server, session_id, "stuck")
    return event


@pytest.mark.parametrize(
    ("hold", "phase", "cause"),
    [
        # One whose event loop goes on is found by the same clock as one whose loop stands.
        pytest.param(
            "hold-optim_step-1", "training", "training step 1: no progress", marks=pytest.mark.nightly,
        ),
        ("block-optim_step-1", "training", "training step 1: no progress"),
        pytest.param(
            "hold-load_weights-1", "hand-over", "handing over the weights of step 1: no progress",
            marks=pytest.mark.nightly,
        ),
    ],
)  # fmt: skip
async def test_a_frozen_step_is_ended_with_its_stacks_and_trained_by_the_next_runtime(
    loop_server: LoopServer, tmp_path: Path, hold: str, phase: str, cause: str
) -> None:
    remote = await asyncio.to_thread(loop_server.session, **PAIRS)
    volume = loop_server.volume(remote.id)
    (volume / "deadlines").write_text(json.dumps({phase: STUCK_S}))
    (volume / hold).touch()
    acknowledged = await asyncio.to_thread(play, remote, "fog", 4)
    await asyncio.to_thread(
        until, (volume / hold.replace("hold", "at").replace("block", "at")).exists, "it is frozen"
    )
    await asyncio.to_thread(
        until, lambda: moves(loop_server, remote.id, "ready", "queued"), "its runtime has ended", 40
    )
    (volume / "deadlines").unlink()
    (volume / hold).unlink()
    event = await frozen(loop_server, remote.id)
    assert event["cause"].startswith(cause)
    assert "runtime_with_fakes.py" in event["stacks"] and "== runtime." in event["stacks"]
    tuned = await asyncio.to_thread(remote.download_tuned_model, tmp_path / "tuned", progress=False)
    await asyncio.to_thread(remote.close)
    assert tuned.step == 1 and len(acknowledged) == 4
    await check_weights(loop_server, remote.id, remote.config, tmp_path / "tuned")


async def test_a_frozen_engine_is_ended_and_the_call_is_served_by_the_next_one(
    loop_server: LoopServer,
) -> None:
    remote = await asyncio.to_thread(loop_server.session, **PAIRS)
    volume = loop_server.volume(remote.id)
    (volume / "deadlines").write_text(json.dumps({"generation": STUCK_S}))
    episode = await asyncio.to_thread(remote.begin_episode, "dew")
    (volume / "hold-generate").touch()
    with ThreadPoolExecutor(1) as agent:
        call = agent.submit(execute_agent, "dew", episode)
        await asyncio.to_thread(
            until, lambda: events(loop_server, remote.id, "stuck"), "it is on the record", 40
        )
        (volume / "deadlines").unlink()
        (volume / "hold-generate").unlink()
        output = await asyncio.wrap_future(call)
    event = await frozen(loop_server, remote.id)
    assert event["cause"].startswith("the engine sampled nothing for")
    view = await asyncio.to_thread(remote.end_episode, output, episode=episode)
    assert view.calls == 1
    await asyncio.to_thread(remote.close)
