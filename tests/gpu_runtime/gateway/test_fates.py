"""What an end answers, each time it is sent: what has become of the episode by then, as the disk
has it.
"""

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_runtime.journal.records import EpisodeRecord
from support.gateway_harness import Gateway, running_gateway
from support.waiting import eventually


async def play(gateway: Gateway, task: str, reward: float = 1.0, **begin: Any) -> dict[str, Any]:
    """A whole episode; answers what its end answered."""
    begun = await gateway.begin(task=task, **begin)
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
    return fate(await gateway.end(begun["episode_id"], reward))


def fate(answer: httpx.Response) -> dict[str, Any]:
    """What an end said of the sample."""
    assert answer.status_code == 200, answer.text
    return {
        name: answer.json()[name]
        for name in ("episode_id", "state", "fate", "trained_step", "reason")
    }


async def train(gateway: Gateway) -> None:
    """One step of whatever groups are full."""
    batches = gateway.episodes.batches
    batch = await batches.flush_batch()
    assert batch is not None
    with batches.stepping():
        gateway.engine.version = batch.step
        await batches.step_done(batch.step, {})


def said(
    view: dict[str, Any], kind: str, step: int | None = None, reason: str | None = None
) -> bool:
    expected = {"state": "completed", "fate": kind, "trained_step": step, "reason": reason}
    return {name: view[name] for name in expected} == expected


async def test_an_end_returns_accepted_and_later_at_which_step_it_was_trained(
    gateway: Gateway,
) -> None:
    for step in (1, 2):
        views = [await play(gateway, f"t{step}", float(number)) for number in range(2)]
        assert all(said(view, "accepted") for view in views)
        await train(gateway)
        for number, view in enumerate(views):
            again = fate(await gateway.end(view["episode_id"], float(number)))
            assert said(again, "trained", step)


async def test_an_end_returns_eval(gateway: Gateway) -> None:
    view = await play(gateway, "t", eval=True)
    assert said(view, "eval")
    assert said(fate(await gateway.end(view["episode_id"])), "eval")


async def test_an_end_that_comes_too_late_returns_stale_and_so_does_one_that_became_so(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path, max_staleness=0) as gateway:
        late = await gateway.begin(task="late")
        await gateway.chat(late)
        left_over = await play(gateway, "left over")
        assert said(left_over, "accepted")
        for number in range(2):
            await play(gateway, "t", float(number))
        await train(gateway)
        why = "stale: its tokens are older than max_staleness allows"
        assert said(fate(await gateway.end(late["episode_id"])), "stale", reason=why)
        assert said(fate(await gateway.end(left_over["episode_id"])), "stale", reason=why)


async def test_an_end_of_a_refused_step_gives_the_reason(gateway: Gateway) -> None:
    views = [await play(gateway, "t", float(number)) for number in range(2)]
    batch = await gateway.episodes.batches.flush_batch()
    assert said(fate(await gateway.end(views[0]["episode_id"], 0.0)), "accepted"), (
        "in a batch is not trained yet"
    )
    await gateway.episodes.batches.step_refused(batch.step, "step_refused: NaN")
    assert said(
        fate(await gateway.end(views[0]["episode_id"], 0.0)), "stale", reason="step_refused: NaN"
    )


async def test_a_restart_forgets_no_fate(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, max_staleness=4) as gateway:
        views = [await play(gateway, "t", float(number)) for number in range(2)]
        waiting, looked = await play(gateway, "u"), await play(gateway, "t", eval=True)
        await train(gateway)
    async with running_gateway(tmp_path, max_staleness=4) as gateway:
        assert said(fate(await gateway.end(views[1]["episode_id"], 1.0)), "trained", 1)
        assert said(fate(await gateway.end(waiting["episode_id"])), "accepted")
        assert said(fate(await gateway.end(looked["episode_id"])), "eval")
        await play(gateway, "u")
        await train(gateway)
        assert said(fate(await gateway.end(waiting["episode_id"])), "trained", 2)


async def test_the_check_of_the_balance_sees_an_episode_that_is_counted_nowhere(
    gateway: Gateway,
) -> None:
    """The check that every test of the gateway ends with."""
    view = await play(gateway, "t")
    gateway.check_balance()
    honest = gateway.journal.episodes.accounting
    for lie in ({"begun": 2}, {"waiting": 0}, {"waiting": 0, "trained": 1}):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError):
            patch.setattr(
                gateway.journal.episodes,
                "accounting",
                lambda lie=lie: honest().model_copy(update=lie),
            )
            gateway.check_balance()
    waiting = gateway.episodes.batches.waiting
    record = waiting.pop(view["episode_id"])
    with pytest.raises(AssertionError, match="memory and disk"):
        gateway.check_balance()
    waiting[view["episode_id"]] = record


async def test_an_end_whose_caller_is_cancelled_is_in_memory_as_it_is_on_disk(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a runtime that closes while an episode expires; the harness compares both at its end
    too.
    """
    begun = await gateway.begin()
    entered, goes_on = threading.Event(), threading.Event()
    abandon = gateway.journal.episodes.abandon

    def slow(*values: Any) -> EpisodeRecord:
        entered.set()
        assert goes_on.wait(25)
        return abandon(*values)

    monkeypatch.setattr(gateway.journal.episodes, "abandon", slow)
    caller = asyncio.ensure_future(gateway.episodes.abandon(begun["episode_id"], "gone"))
    await eventually(entered.is_set)
    caller.cancel()
    goes_on.set()
    assert isinstance(
        (await asyncio.gather(caller, return_exceptions=True))[0], asyncio.CancelledError
    )
    gateway.check_balance()
    assert gateway.episodes.open.all() == []
