"""A recorded run of a team of agents, played again: the same calls make the same timelines in any
order.
"""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from clients.outside_agents import check_record, timelines_of
from clients.recording import FILE, record

from support.gateway_harness import Gateway

RECORDED = json.loads(FILE.read_text())
CALLS: list[dict[str, Any]] = RECORDED["calls"]


async def play(gateway: Gateway, key: str, call: dict[str, Any], *, named: bool = True) -> None:
    headers = {"X-Agent": call["agent"]} if named else {}
    answer = await gateway.raw_chat(key, headers, **call["body"])
    assert answer.status_code == 200, answer.text


async def play_in_order(
    gateway: Gateway, order: list[int], *, named: bool = True
) -> list[list[int]]:
    """The timelines in places of the recording, after the calls were asked in ``order``."""
    begun = await gateway.begin()
    for place in order:
        gateway.engine.say(CALLS[place]["answer"])
        await play(gateway, begun["api_key"], CALLS[place], named=named)
    calls = await check_record(gateway, begun["episode_id"], gateway.engine.requests)
    return sorted(sorted(order[place] for place in timeline) for timeline in timelines_of(calls))


def test_recording_is_of_several_agents_who_go_on_with_what_they_said() -> None:
    assert len({call["agent"] for call in CALLS}) > 3
    assert any(len(timeline) > 1 for timeline in RECORDED["timelines"])
    assert sorted(place for timeline in RECORDED["timelines"] for place in timeline) == list(
        range(len(CALLS))
    )


@pytest.mark.smoke
@pytest.mark.parametrize("named", [True, False])
async def test_recorded_run_makes_the_recorded_timelines(gateway: Gateway, named: bool) -> None:
    assert (
        await play_in_order(gateway, list(range(len(CALLS))), named=named) == RECORDED["timelines"]
    )


@pytest.mark.parametrize("seed", range(4))
async def test_agents_who_work_at_the_same_time_make_the_same_timelines(
    gateway: Gateway, seed: int
) -> None:
    """Each agent's calls stay in their order; how they fall between those of the others does not
    matter.
    """
    chance, order = Random(seed), []
    queues = {
        agent: [i for i, call in enumerate(CALLS) if call["agent"] == agent] for agent in names()
    }
    while any(queues.values()):
        order.append(queues[chance.choice([agent for agent in names() if queues[agent]])].pop(0))
    assert await play_in_order(gateway, order) == RECORDED["timelines"]


async def test_every_token_is_trained_once_when_all_calls_are_asked_at_once(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    gateway.engine.say(*[call["answer"] for call in CALLS])
    await asyncio.gather(*[play(gateway, begun["api_key"], call) for call in CALLS])
    assert len(await check_record(gateway, begun["episode_id"], gateway.engine.requests)) == len(
        CALLS
    )


async def test_every_token_is_trained_once_when_each_call_is_asked_twice(gateway: Gateway) -> None:
    """As by an agent that tries again; equal answers are two samples of their own."""
    twice = [place for place in range(len(CALLS)) for _ in range(2)]
    found = await play_in_order(gateway, twice)
    assert sorted(place for timeline in found for place in timeline) == twice


async def test_program_still_asks_what_was_recorded(gateway: Gateway, tmp_path: Path) -> None:
    run, calls = await record(gateway, tmp_path)
    assert calls == CALLS
    assert run.timelines == RECORDED["timelines"]


def names() -> list[str]:
    return sorted({call["agent"] for call in CALLS})
