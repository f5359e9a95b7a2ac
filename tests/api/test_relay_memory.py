"""An answer of the database is a second old at most, and no call of a busy session waits for it."""

import asyncio
import time

import pytest

from api import relay_memory
from api.relay_memory import FRESH_S, Memory

K = "ses_remembered"


class Gone(Exception):
    """What the table says of a row that it has no more."""


class Table:
    """Stands for the database: counts the looks, and holds them up while ``may_answer`` is not set."""

    def __init__(self) -> None:
        self.looks, self.value, self.may_answer = 0, "one", asyncio.Event()
        self.may_answer.set()

    async def look_up(self, key: str) -> str:
        self.looks += 1
        await self.may_answer.wait()
        if not self.value:
            raise Gone
        return self.value


@pytest.fixture
async def table() -> Table:
    return Table()


@pytest.fixture
async def memory(table: Table) -> Memory[str]:
    return Memory(table.look_up)


def make_older(memory: Memory[str], share: float) -> None:
    answer, _ = memory._known[K]
    memory._known[K] = answer, time.monotonic() - share * FRESH_S


async def settled(memory: Memory[str]) -> None:
    while memory._asking:
        await asyncio.wait(list(memory._asking.values()))


async def test_an_aging_answer_is_used_while_it_is_looked_up_again(memory, table) -> None:
    assert await memory.get(K) == "one"
    table.may_answer.clear()
    table.value = "two"
    make_older(memory, 0.6)
    for _ in range(3):  # the table does not answer: nobody waits for it, and it is asked once
        assert await memory.get(K) == "one"
        await asyncio.sleep(0)
    assert table.looks == 2
    table.may_answer.set()
    await settled(memory)
    assert await memory.get(K) == "two"


async def test_a_young_answer_is_not_looked_up(memory, table) -> None:
    for _ in range(10):
        await memory.get(K)
    assert table.looks == 1


async def test_an_answer_is_never_used_past_its_time(memory, table) -> None:
    await memory.get(K)
    table.value = "two"
    make_older(memory, 1.0)
    assert await memory.get(K) == "two"


async def test_an_answers_age_counts_from_the_question(memory, table, monkeypatch) -> None:
    monkeypatch.setattr(relay_memory, "FRESH_S", 0.05)
    table.may_answer.clear()
    asked = asyncio.create_task(memory.get(K))
    await asyncio.sleep(0.06)
    table.may_answer.set()
    assert await asked == "one"
    table.value = "two"  # the row was read before this, however late the answer came
    assert await memory.get(K) == "two"


async def test_what_goes_between_calls_is_gone_for_the_next(memory, table) -> None:
    await memory.get(K)
    table.value = ""
    make_older(memory, 0.6)
    await memory.get(K)
    await settled(memory)  # nobody heard that look-up fail: it must not be reported as lost either
    with pytest.raises(Gone):
        await memory.get(K)
    table.value = "back"
    assert await memory.get(K) == "back"


async def test_one_who_goes_away_leaves_the_answer_to_the_others(memory, table) -> None:
    table.may_answer.clear()
    first, second = asyncio.create_task(memory.get(K)), asyncio.create_task(memory.get(K))
    await asyncio.sleep(0)
    first.cancel()
    table.may_answer.set()
    assert await second == "one"
    assert table.looks == 1


async def test_answers_do_not_pile_up(memory, monkeypatch) -> None:
    monkeypatch.setattr(relay_memory, "KNOWN_MAX", 5)
    for number in range(20):
        await memory.get(f"ses_{number}")
    assert len(memory._known) <= 5
