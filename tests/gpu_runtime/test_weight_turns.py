"""Requests for different weights take turns: never two sets at once, none waits for ever, a failure
is told.
"""

import asyncio
from pathlib import Path

import pytest

from gpu_runtime.engine.served.weight_turns import WeightTurns

A, B = Path("/a"), Path("/b")


class Engine:
    """Notes what is served while requests run; a change meets no running request."""

    def __init__(self) -> None:
        self.served: Path | None = None
        self.running = 0
        self.changes: list[Path | None] = []
        self.failing: set[Path] = set()
        self.turns = WeightTurns(self.change)

    async def change(self, weights: Path | None) -> None:
        assert self.running == 0, "no request runs while weights change"
        await asyncio.sleep(0)
        self.changes.append(weights)
        if weights in self.failing:
            raise ValueError("these do not fit")
        self.served = weights

    async def request(self, weights: Path | None, until: asyncio.Event | None = None) -> None:
        async with self.turns.of(weights):
            self.running += 1
            assert self.served == weights
            await (until.wait() if until else asyncio.sleep(0))
            assert self.served == weights
            self.running -= 1


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_requests_for_other_weights_wait_and_then_run_together() -> None:
    engine, held = Engine(), asyncio.Event()
    running = [asyncio.create_task(engine.request(None, held)) for _ in range(2)]
    await settle()
    waiting = [asyncio.create_task(engine.request(each)) for each in (A, B, A, None, B)]
    await settle()
    assert engine.running == 2 and engine.turns.waiting == 5, (
        "also one for what is served: it came later"
    )
    held.set()
    await asyncio.wait_for(asyncio.gather(*running, *waiting), 25)
    assert engine.changes == [A, B, None], "one change for all that wait for the same"
    assert engine.turns.waiting == 0


async def test_a_change_that_fails_is_told_and_nothing_is_taken_for_granted_after_it() -> None:
    engine = Engine()
    engine.failing.add(A)
    failed = await asyncio.gather(engine.request(A), engine.request(A), return_exceptions=True)
    assert [str(each) for each in failed] == ["these do not fit"] * 2
    await engine.request(None)
    assert engine.changes == [A, None], "what a failed change left is not relied on"


async def test_one_that_is_cancelled_while_it_waits_leaves_no_trace() -> None:
    engine, held = Engine(), asyncio.Event()
    running = asyncio.create_task(engine.request(None, held))
    await settle()
    given_up, other = asyncio.create_task(engine.request(A)), asyncio.create_task(engine.request(B))
    await settle()
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    held.set()
    await asyncio.wait_for(asyncio.gather(running, other), 25)
    assert engine.changes == [B]


async def test_one_that_is_cancelled_as_its_turn_comes_gives_it_back() -> None:
    engine, held = Engine(), asyncio.Event()
    running = asyncio.create_task(engine.request(None, held))
    await settle()
    waiting = asyncio.create_task(engine.request(A))
    await settle()
    held.set()
    while A not in engine.changes:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    await asyncio.wait_for(engine.request(B), 25)
    assert engine.changes[-1] == B


async def test_one_that_is_cancelled_as_its_change_fails_had_no_turn_to_give_back() -> None:
    engine = Engine()
    engine.failing.add(A)
    waiting = asyncio.create_task(engine.request(A))
    while A not in engine.changes:
        await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(waiting.cancel)  # behind the end of the change
    await asyncio.gather(waiting, return_exceptions=True)
    assert engine.turns.running == 0
    await asyncio.wait_for(engine.request(B), 25)


@pytest.mark.parametrize("keeps", [False, True])
async def test_while_the_engine_is_held_no_request_begins(keeps: bool) -> None:
    engine, ends = Engine(), asyncio.Event()
    running = asyncio.create_task(engine.request(None, ends))
    await settle()
    hold = asyncio.create_task(engine.turns.hold(keeps=keeps))
    waiting = [asyncio.create_task(engine.request(each)) for each in (None, A)]
    await settle()
    assert hold.done() == keeps and engine.running == 1, "those that run are kept, or waited for"
    ends.set()
    await asyncio.wait_for(asyncio.gather(running, hold), 25)
    await settle()
    assert engine.running == 0 and engine.turns.waiting == 2 and engine.changes == []
    engine.turns.release()
    await asyncio.wait_for(asyncio.gather(*waiting), 25)
    assert engine.changes == [A]


async def test_a_change_under_way_ends_before_the_engine_is_held() -> None:
    engine = Engine()
    first = asyncio.create_task(engine.request(A))
    await asyncio.sleep(0)
    hold = asyncio.create_task(engine.turns.hold(keeps=False))
    await asyncio.wait_for(hold, 25)
    assert engine.changes == [A] and not first.done(), "its turn comes with the release"
    engine.turns.release()
    await asyncio.wait_for(first, 25)
