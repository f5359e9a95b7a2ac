"""The plain client inside a running event loop: it works while nothing waits, and refuses to
wait.
"""

import asyncio
from concurrent.futures import Future, wait

import pytest
from sdk.http_parts import not_ready

from support.waiting import wait_until
from tinkerscript import BeginWouldBlock
from tinkerscript.episodes import begins


@pytest.fixture(autouse=True)
def held_soon(monkeypatch):
    monkeypatch.setattr(begins, "HELD_S", 0.1)


@pytest.fixture
def stops(monkeypatch):
    """For how long each begin was ready to stop the loop, in seconds: it stops it for a tenth of
    that and less.
    """
    stops = []

    def wait_shorter(futures: list[Future], timeout: float):
        stops.append(timeout)
        return wait(futures, timeout=min(timeout / 10, 0.1))

    monkeypatch.setattr(begins, "wait_for", wait_shorter)
    return stops


def test_held_begin_in_a_running_loop_refuses_at_once_with_advice(server, session, stops):
    server.fail("POST .*/episodes", times=10_000, answer=not_ready("loading"))

    async def main():
        with pytest.raises(BeginWouldBlock) as caught:
            session.begin_episode()
        return str(caught.value)

    said = asyncio.run(main())
    assert stops == [0.1]
    assert "AsyncTinkerScript" in said
    assert "asyncio.to_thread" in said


def test_hundreds_of_held_begins_stop_the_loop_hardly_longer_than_one(
    server, session, stops, monkeypatch
):
    monkeypatch.setattr(begins, "HELD_S", 60.0)  # the machine may stand still between two of them
    server.hold_begins()

    async def rollout():
        with pytest.raises(BeginWouldBlock):
            session.begin_episode()

    async def main():
        await asyncio.gather(*(rollout() for _ in range(20)))

    asyncio.run(main())
    assert stops[0] == 60.0 and sum(stops[1:]) <= 1.0
    server.let_begins_go()


def test_begin_that_was_refused_is_abandoned_should_it_begin_after_all(server, session):
    server.hold_begins()

    async def main():
        with pytest.raises(BeginWouldBlock):
            session.begin_episode(task="late")
        assert server.episodes == {}

    asyncio.run(main())
    server.let_begins_go()
    wait_until(lambda: [e.state for e in server.episodes.values()] == ["abandoned"])


@pytest.mark.system
def test_forty_coroutines_with_sixteen_places_all_come_back(server, session, monkeypatch):
    # the first sixteen return within this on a slow machine too
    monkeypatch.setattr(begins, "HELD_S", 2.0)
    server.places = 16
    refused = []

    async def rollout(number):
        try:
            session.begin_episode(task=f"{number}")
        except BeginWouldBlock:
            refused.append(number)
            return
        await asyncio.sleep(0)
        session.end_episode(1.0)

    async def main():
        await asyncio.wait_for(asyncio.gather(*(rollout(n) for n in range(40))), 60)

    asyncio.run(main())
    assert len(refused) == 24
    wait_until(lambda: all(e.state != "open" for e in server.episodes.values()))
    assert sum(e.state == "completed" for e in server.episodes.values()) == 16
