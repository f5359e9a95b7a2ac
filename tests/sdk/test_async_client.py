"""AsyncTinkerScript: the same methods, and a loop that goes on whatever waits."""

import asyncio
import inspect
import json

import pytest
from sdk.http_parts import not_ready, reply
from sdk.rest_server import API_KEY

from support.waiting import eventually, wait_until
from tinkerscript import (
    AsyncTinkerScript,
    ClientClosed,
    InvalidRequest,
    NoOpenEpisode,
    Session,
    TinkerScript,
    UnknownOption,
    WaitTimeout,
)
from tinkerscript.downloads import checkpoints
from tinkerscript.episodes.episode_loop import EpisodeLoop
from tinkerscript.wire.tasks import TaskCounts

OF_REQUESTS = {"status", "accounting", "stop", "checkpoints"}
OF_THIS_PROCESS = {
    "after_fork",
    "adopt",
    "begin_for",
    "begin_waiting",
    "leave_episodes",
    "planned_attempts",
    "put_aside",
    "watch_groups",
    "abandon_open_episodes",
}
WAITS = {"wait_ready", "wait_released"}  # the constructor and close() wait


def test_a_closed_session_says_so_and_closes_twice(server):
    async def main():
        async with AsyncTinkerScript("m", base_url=server.url, api_key=API_KEY) as session:
            await session.close()
            with pytest.raises(ClientClosed, match="Attach again"):
                await session.begin_episode()
            with pytest.raises(ClientClosed):
                await session.status()

    asyncio.run(main())


@pytest.fixture
def start(server):
    def start(**options):
        return AsyncTinkerScript("SmolLM2", base_url=server.url, api_key=API_KEY, **options)

    return start


def test_it_has_every_method_of_the_plain_client_with_the_same_parameters():
    own = {**vars(Session), **vars(EpisodeLoop), **vars(TinkerScript)}
    wanted = {
        name
        for name, value in own.items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    for name in (wanted | OF_REQUESTS) - OF_THIS_PROCESS - WAITS:
        theirs = inspect.signature(getattr(TinkerScript, name)).parameters
        ours = inspect.signature(getattr(AsyncTinkerScript, name)).parameters
        assert "options" in ours or list(theirs) == list(ours), name
    assert list(inspect.signature(TinkerScript).parameters) == list(
        inspect.signature(AsyncTinkerScript).parameters
    )


async def test_a_loop_from_start_to_model(server, start, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "POLL_INTERVAL_S", 0.01)
    async with start(grpo_n=4) as session:
        async with session.episode("3+4") as (base_url, api_key):
            assert base_url == f"{server.url}/openai/v1"
            assert api_key.startswith("tml-ep-")
            assert (await session.end_episode(1.0)).reward == 1.0
        episode = await session.begin_episode("5+6")
        assert (await episode.end(0.5)).reward == 0.5
        assert (await session.status()).config.grpo_n == 4
        assert [view.task async for view in session.episodes()] == ["5+6", "3+4"]
        model = await session.download_tuned_model(tmp_path / "model", progress=False)
        assert (model.path / "config.json").exists()
    assert server.sessions[session.id].state == "stopped"


@pytest.mark.system
async def test_two_hundred_rollouts_on_sixteen_places(server, start):
    server.places = 16

    async def rollout(session, number):
        async with session.episode(f"{number:03}"):
            await asyncio.sleep(0)
            await session.end_episode(float(number))

    async with start() as session:
        await asyncio.wait_for(asyncio.gather(*(rollout(session, n) for n in range(200))), 120)
    assert sorted((e.task, e.reward) for e in server.episodes.values()) == [
        (f"{n:03}", float(n)) for n in range(200)
    ]


async def test_held_begin_lets_the_loop_go_on(server, start):
    async with start() as session:
        server.hold_begins()
        begun = asyncio.create_task(session.begin_episode())
        await eventually(lambda: server.seen("POST .*/episodes"))
        assert not begun.done()
        server.let_begins_go()
        assert (await begun).is_open


async def test_cancelled_begin_leaves_no_episode_behind(server, start):
    async with start() as session:
        server.hold_begins()
        begun = asyncio.create_task(session.begin_episode(task="late"))
        await eventually(lambda: server.seen("POST .*/episodes"))
        begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun
        server.let_begins_go()
        await asyncio.to_thread(
            wait_until, lambda: [e.state for e in server.episodes.values()] == ["abandoned"]
        )


async def test_cancelled_begin_is_not_sent_again(server, start):
    async with start() as session:
        server.fail("POST .*/episodes", times=10_000, answer=not_ready("loading"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.begin_episode(), 0.3)
        sent = len(server.seen(f"POST .*/{session.id}/episodes"))
        # its begin, which no one cancels, is sent again ten times meanwhile
        async with start() as other:
            begun = asyncio.create_task(other.begin_episode())
            await eventually(lambda: len(server.seen(f"POST .*/{other.id}/episodes")) >= 10)
            begun.cancel()
        # one may have been under way
        assert len(server.seen(f"POST .*/{session.id}/episodes")) <= sent + 1


async def test_cancelled_start_leaves_no_session_behind(server, start):
    server.first_state = "queued"
    starting = asyncio.create_task(start().__aenter__())
    await eventually(lambda: server.sessions)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    [session_id] = server.sessions
    server.set_state(session_id, "ready")
    await asyncio.to_thread(wait_until, lambda: server.sessions[session_id].state == "stopped")


async def test_each_task_has_its_own_current_episode(server, start):
    async with start() as session:
        await session.begin_episode(task="outer")

        async def child():
            with pytest.raises(NoOpenEpisode):
                await session.end_episode(0.0)
            await session.begin_episode(task="inner")
            await session.end_episode(0.5)

        await asyncio.gather(child(), child())
        await session.end_episode(1.0)
    assert sorted((e.task, e.reward) for e in server.episodes.values()) == [("inner", 0.5)] * 2 + [
        ("outer", 1.0)
    ]


async def test_block_that_raises_abandons_its_episode(server, start):
    async with start() as session:
        with pytest.raises(ZeroDivisionError):
            async with session.episode():
                raise ZeroDivisionError
    assert [(e.state, e.reason) for e in server.episodes.values()] == [
        ("abandoned", "ZeroDivisionError")
    ]


async def test_options_are_checked_before_the_start(server, start):
    with pytest.raises(UnknownOption):
        start(learning_rat=1.0)
    with pytest.raises(ClientClosed, match="async with"):
        await start().status()
    assert server.requests == []


async def test_the_queue_of_tasks_is_awaited(server, start):
    counts = TaskCounts(waiting=2, running=0, done=0, failed=0, workers=0)
    server.fail("POST .*/tasks", answer=reply(200, counts))
    server.fail("GET .*/tasks", answer=reply(200, counts))
    async with start(grpo_n=2) as session:
        assert (await session.tasks.put(["a"])).waiting == 2
        assert json.loads(server.seen("POST .*/tasks")[0].body)["attempts"] == 2
        with pytest.raises(WaitTimeout, match="2 attempts wait"):
            await session.tasks.wait(0.0)
        with pytest.raises(InvalidRequest, match="no rows"):
            await session.tasks.put([])
