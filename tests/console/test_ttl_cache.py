"""An answer of the database is a second old at most, and no call of a busy session waits for it."""

import asyncio
import gc
import weakref

import pytest

from console.server import ttl_cache as cache
from console.server.ttl_cache import FRESH_S, TtlCache
from support.waiting import FakeClock, eventually

K = "ses_remembered"


class Gone(Exception):
    """What the table says of a row that it has no more."""


class Table:
    """Stands for the database: counts the looks, and holds them up while ``may_answer`` is not
    set.
    """

    def __init__(self) -> None:
        self.looks, self.ended, self.value, self.may_answer = 0, 0, "one", asyncio.Event()
        self.may_answer.set()

    async def look_up(self, key: str) -> str:
        self.looks += 1
        await self.may_answer.wait()
        self.ended += 1
        if not self.value:
            raise Gone
        return self.value


@pytest.fixture
async def table() -> Table:
    return Table()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def cached(table: Table, clock: FakeClock) -> TtlCache[str, str]:
    return TtlCache(table.look_up, clock=clock)


async def test_an_aging_answer_is_used_while_it_is_looked_up_again(cached, table, clock) -> None:
    assert await cached.get(K) == "one"
    table.may_answer.clear()
    table.value = "two"
    clock.advance(0.6 * FRESH_S)
    for _ in range(3):  # the look-up hangs: no call waits for it, and there is one
        assert await cached.get(K) == "one"
        await asyncio.sleep(0)
    assert table.looks == 2
    table.may_answer.set()
    await eventually(lambda: table.ended == 2)
    assert await cached.get(K) == "two"


async def test_a_young_answer_is_not_looked_up(cached, table) -> None:
    for _ in range(10):
        await cached.get(K)
    assert table.looks == 1


async def test_an_answer_is_never_used_past_its_time(cached, table, clock) -> None:
    await cached.get(K)
    table.value = "two"
    clock.advance(FRESH_S)
    assert await cached.get(K) == "two"


async def test_a_routes_age_counts_from_the_query(cached, table, clock) -> None:
    table.may_answer.clear()
    asked = asyncio.create_task(cached.get(K))
    await eventually(lambda: table.looks == 1)
    clock.advance(FRESH_S)
    table.may_answer.set()
    assert await asked == "one"
    table.value = "two"  # the row was read before this, however late the answer came
    assert await cached.get(K) == "two"


async def test_what_goes_between_calls_is_gone_for_the_next(cached, table, clock) -> None:
    await cached.get(K)
    table.value = ""
    clock.advance(0.6 * FRESH_S)
    await cached.get(K)
    # No call waited for the look-up that failed: asyncio must not report its error as lost.
    await eventually(lambda: len(cached) == 0)
    with pytest.raises(Gone):
        await cached.get(K)
    table.value = "back"
    assert await cached.get(K) == "back"


async def test_one_who_goes_away_leaves_the_answer_to_the_others(cached, table) -> None:
    table.may_answer.clear()
    first, second = asyncio.create_task(cached.get(K)), asyncio.create_task(cached.get(K))
    await asyncio.sleep(0)
    first.cancel()
    table.may_answer.set()
    assert await second == "one"
    assert table.looks == 1


async def test_cached_routes_do_not_pile_up(cached, monkeypatch) -> None:
    monkeypatch.setattr(cache, "MAX_ENTRIES", 5)
    for number in range(20):
        await cached.get(f"ses_{number}")
    assert len(cached) <= 5


async def test_what_a_look_up_is_given_beside_the_key_is_not_kept() -> None:
    """Such as a websocket, which may be over."""

    class Given:
        """Can be referred to weakly."""

    async def look_up(key: str, given: object) -> str:
        return f"{key} {type(given).__name__}"

    cached, given = TtlCache(look_up), Given()
    assert await cached.get(K, given) == f"{K} Given"
    gone = weakref.ref(given)
    del given
    gc.collect()
    assert gone() is None and len(cached) == 1
