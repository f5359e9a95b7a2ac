"""A loop that begins its episode outside is told so; runs of several agents, votes and retries are
not.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gpu_runtime.episodes.repeated_prompts import OF_ONE_PROMPT, RepeatedPrompts
from support.gateway_harness import Gateway
from support.trained_batches import call

LIMIT = 4  # the least number of repeats: the harness has grpo_n=2


@pytest.fixture
def told(gateway: Gateway) -> list[dict[str, Any]]:
    return gateway.events


async def attempts(
    gateway: Gateway, begun: dict[str, Any], task: str, count: int, **options: Any
) -> None:
    for _ in range(count):
        await gateway.chat(begun, task, **options)


@pytest.mark.system
async def test_an_episode_begun_outside_the_loop_is_told(
    gateway: Gateway, told: list[dict[str, Any]]
) -> None:
    begun = await gateway.begin()
    for task in ("two and two", "three and three"):
        assert told == []
        await attempts(gateway, begun, task, LIMIT)
    [event] = told
    assert (event["name"], event["episode_id"]) == ("attempts_in_one_episode", begun["episode_id"])
    assert "begin_episode() inside the loop" in event["hint"]
    beat = (await gateway.internal("POST", f"/episodes/{begun['episode_id']}/heartbeat")).json()
    ended = (await gateway.end(begun["episode_id"])).json()
    assert beat["warning"] == ended["warning"] == f"{event['reason']}. {event['hint']}"
    later = await gateway.begin()
    await attempts(gateway, later, "two and two", OF_ONE_PROMPT * LIMIT)
    assert len(told) == 1


async def test_an_episode_for_each_task_instead_of_each_attempt_is_told(
    gateway: Gateway, told: list[dict[str, Any]]
) -> None:
    for task in ("a", "b"):
        begun = await gateway.begin(task=task)
        await attempts(gateway, begun, task, LIMIT)
        warning = (await gateway.end(begun["episode_id"])).json()["warning"]
        assert (warning is None) == (task == "a")
    assert len(told) == 1


@pytest.mark.system
async def test_one_task_for_ever_in_one_episode_is_told(
    gateway: Gateway, told: list[dict[str, Any]]
) -> None:
    begun = await gateway.begin()
    await attempts(gateway, begun, "guess", OF_ONE_PROMPT * LIMIT - 1)
    assert told == []
    await gateway.chat(begun, "guess")
    assert len(told) == 1


async def many_agents(gateway: Gateway, begun: dict[str, Any]) -> None:
    for number in range(3 * LIMIT):
        await gateway.chat(begun, f"you are agent {number}")


async def a_vote_at_once(gateway: Gateway, begun: dict[str, Any]) -> None:
    for question in ("first", "second"):
        await asyncio.gather(*[gateway.chat(begun, question) for _ in range(2 * LIMIT)])


async def a_labelled_vote(gateway: Gateway, begun: dict[str, Any]) -> None:
    for question in ("first", "second"):
        await attempts(gateway, begun, question, LIMIT, extra_headers={"X-Agent": "voter"})


async def one_prompt_again_and_again(gateway: Gateway, begun: dict[str, Any]) -> None:
    await attempts(gateway, begun, "what next?", 2 * LIMIT)
    for number in range(LIMIT):
        await gateway.chat(begun, f"state {number}")


@pytest.mark.system
@pytest.mark.parametrize(
    "run", [many_agents, a_vote_at_once, a_labelled_vote, one_prompt_again_and_again]
)
async def test_real_runs_are_not(
    gateway: Gateway, told: list[dict[str, Any]], run: Callable[[Gateway, dict[str, Any]], Any]
) -> None:
    begun = await gateway.begin()
    await run(gateway, begun)
    assert told == []
    assert (await gateway.end(begun["episode_id"])).json()["warning"] is None


@pytest.mark.parametrize(("begun_at", "is_told"), [(0.5, False), (1.0, True)])
def test_equal_prompts_count_where_one_begins_after_the_other_has_ended(
    begun_at: float, is_told: bool
) -> None:
    seen = RepeatedPrompts(grpo_n=2)
    calls = [call(f"{n}", [prompt], [3], begun_at=begun_at) for prompt in (1, 2) for n in range(8)]
    assert any(map(seen.add, calls)) == is_told, "each of them ends at 1.0"


async def test_a_session_that_fills_its_groups_is_not(
    gateway: Gateway, told: list[dict[str, Any]]
) -> None:
    for task in ("a", "a"):
        begun = await gateway.begin(task=task)
        await gateway.chat(begun, task)
        await gateway.end(begun["episode_id"])
    begun = await gateway.begin(task="b")
    for question in ("first", "second"):
        await attempts(gateway, begun, question, LIMIT)
    assert told == []


async def test_evaluation_is_not(gateway: Gateway, told: list[dict[str, Any]]) -> None:
    begun = await gateway.begin(eval=True)
    for question in ("first", "second"):
        await attempts(gateway, begun, question, LIMIT)
    assert told == []


async def test_a_call_after_the_end_says_what_to_do(gateway: Gateway) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun)
    await gateway.end(begun["episode_id"])
    with pytest.raises(Exception, match="Begin a new episode") as caught:
        await gateway.chat(begun)
    assert caught.value.status_code == 410
