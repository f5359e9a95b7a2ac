"""What a runtime says while it waits for episodes, and of ended episodes that it will not train."""

from typing import Any

import pytest

from gpu_runtime.episodes.progress import EpisodesDropped, episodes_stale, waiting_phase
from gpu_runtime.health.status import Phase, Status
from support.gateway_harness import Gateway
from tinkerscript.wire.runtime import MAX_PHASE, PHASE_WAITING


async def play(gateway: Gateway, task: str, reward: float = 1.0) -> dict[str, Any]:
    begun = await gateway.begin(task=task)
    await gateway.chat(begun)
    return (await gateway.end(begun["episode_id"], reward)).json()


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        ({}, ""),
        (
            {"prompt:08b4eca0634b2c7a9cf67a392bb27f6e": 5},
            ": 0 of 4 groups complete; 1 group waits with 5 of 8; a task without a name lacks 3",
        ),
        ({"a": 8}, ": 1 of 4 groups complete"),
        ({"a": 7}, ": 0 of 4 groups complete; 1 group waits with 7 of 8; task a lacks 1"),
        (
            {"17": 6, "b": 6, "c": 14},
            ": 1 of 4 groups complete; 3 groups wait with 6 of 8; task 17 lacks 2",
        ),
        (
            {"a": 1, "b": 1, "c": 2, "d": 3},
            ": 0 of 4 groups complete; 2 groups wait with 1 of 8, 1 group waits with 2 of 8, 1 with other numbers; "
            "task d lacks 5",
        ),
    ],
)
def test_the_phase_says_how_far_the_coming_batch_is(waiting: dict[str, int], said: str) -> None:
    assert waiting_phase(waiting, grpo_n=8, tasks_per_batch=4) == PHASE_WAITING + said


def test_the_phase_fits_into_a_heartbeat_whatever_is_waited_for() -> None:
    """Of a runtime whose machine is taken away, too: a phase that was too long ended it."""
    waiting = {f"{number}{'x' * 500}": number % 7 + 1 for number in range(1000)}
    words = waiting_phase(waiting, grpo_n=8, tasks_per_batch=10_000, is_early=True)
    status = Status()
    for _ in range(2):
        status.begin(Phase.WAITING, f"{words}; the trainer is loading")
        sent = status.snapshot().phase
        assert len(sent) == MAX_PHASE and "waits for open episodes" in sent
        status.preempt()


async def test_the_phase_is_that_of_the_episodes_that_were_ended(gateway: Gateway) -> None:
    assert gateway.episodes.batches.phase() == PHASE_WAITING
    await play(gateway, "Paris")
    assert gateway.episodes.batches.phase() == (
        f"{PHASE_WAITING}: 0 of 2 groups complete; 1 group waits with 1 of 2; task Paris lacks 1"
    )


@pytest.mark.system
async def test_every_way_of_dropping_ended_episodes_is_told(gateway: Gateway) -> None:
    batches, told = gateway.episodes.batches, []
    gateway.bus.subscribe(
        EpisodesDropped,
        lambda event: told.append(episodes_stale(event.records, event.why, event.hint)),
    )
    for task in ("a", "a", "b", "b"):
        await play(gateway, task)
    await batches.step_refused((await batches.next_batch()).step, "NaN gradient")
    for task in ("a", "a", "b", "b"):
        await play(gateway, task)
    level = await batches.next_batch()
    await batches.set_aside(level.step, level.groups)
    await play(gateway, "left over")
    for version in (1, 2, 3):
        for task in ("a", "a", "b", "b"):
            await play(gateway, task)
        step = (await batches.next_batch()).step
        gateway.engine.version = version
        await batches.step_done(step, {})
    assert [(event["n"], event["tasks"], event["why"].partition(":")[0]) for event in told] == [
        (4, ["a", "b"], "NaN gradient"),
        (4, ["a", "b"], "nothing to learn"),
        (1, ["left over"], "stale"),
    ]
    assert (
        told[2]["reason"].startswith("1 ended episode was dropped")
        and "max_staleness" in told[2]["hint"]
    )
    assert sum(event["n"] for event in told) == (await gateway.accounting())["stale"]
