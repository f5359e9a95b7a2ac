"""The plain client inside a running event loop: it works while nothing waits, and refuses to wait."""

import asyncio
import time

import pytest
from sdk.http_parts import not_ready

from support.waiting import wait_until
from tinkerscript import BeginWouldBlock
from tinkerscript.episodes import begins


@pytest.fixture(autouse=True)
def held_soon(monkeypatch):
    monkeypatch.setattr(begins, "HELD_S", 0.1)


def test_held_begin_in_a_running_loop_refuses_at_once_with_advice(server, session):
    server.fail("POST .*/episodes", times=10_000, answer=not_ready("loading"))

    async def main():
        started = time.monotonic()
        with pytest.raises(BeginWouldBlock) as caught:
            session.begin_episode()
        assert time.monotonic() - started < 25
        return str(caught.value)

    said = asyncio.run(main())
    assert "AsyncTinkerScript" in said
    assert "asyncio.to_thread" in said


def test_hundreds_of_held_begins_stop_the_loop_hardly_longer_than_one(server, session, monkeypatch):
    monkeypatch.setattr(begins, "HELD_S", 1.5)
    server.hold_begins()

    async def rollout():
        with pytest.raises(BeginWouldBlock):
            session.begin_episode()

    async def main():
        await asyncio.gather(*(rollout() for _ in range(20)))

    started = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - started < 25, "one after the other they would stop it for 30 s"
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


def test_forty_coroutines_with_sixteen_places_all_come_back(server, session, monkeypatch):
    monkeypatch.setattr(begins, "HELD_S", 2.0)  # the first sixteen return within this on a slow machine too
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
