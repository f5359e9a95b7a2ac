"""A route is a second old at most, and no call of a busy session waits for it."""

import asyncio
import threading
import time

import pytest

from api import relay_routes
from api.relay_refusals import Refusal
from api.relay_routes import FRESH_S, Routes
from console.errors import NotFound
from console.sessions.selectors import Route
from tinkerscript.wire.sessions import SessionState

pytestmark = pytest.mark.django_db(transaction=True)  # what asks the table closes old connections first
S = "ses_routed"


class Table:
    """Stands for the database: counts the looks, and holds them up while ``may_answer`` is not set."""

    def __init__(self) -> None:
        self.looks, self.address, self.may_answer = 0, "one:1", threading.Event()
        self.may_answer.set()

    def __call__(self, *, session_id: str) -> Route:
        self.looks += 1
        assert self.may_answer.wait(10)
        if not self.address:
            raise NotFound("gone")
        return Route(session_id=session_id, state=SessionState.READY, address=self.address, failure=None)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table()
    monkeypatch.setattr(relay_routes, "route_get", table)
    return table


def make_older(routes: Routes, share: float) -> None:
    route, _ = routes._known[S]
    routes._known[S] = route, time.monotonic() - share * FRESH_S


async def settled(routes: Routes) -> None:
    while routes._asking:
        await asyncio.wait(list(routes._asking.values()))


async def test_an_aging_route_is_used_while_it_is_looked_up_again(table) -> None:
    routes = Routes()
    assert (await routes.get(S)).address == "one:1"
    table.may_answer.clear()
    table.address = "two:2"
    make_older(routes, 0.6)
    for _ in range(3):  # the table does not answer: nobody waits for it, and it is asked once
        assert (await routes.get(S)).address == "one:1"
    table.may_answer.set()
    await settled(routes)
    assert table.looks == 2
    assert (await routes.get(S)).address == "two:2"


async def test_a_young_route_is_not_looked_up(table) -> None:
    routes = Routes()
    for _ in range(10):
        await routes.get(S)
    assert table.looks == 1


async def test_a_route_is_never_used_past_its_second(table) -> None:
    routes = Routes()
    await routes.get(S)
    table.address = "two:2"
    make_older(routes, 1.0)
    assert (await routes.get(S)).address == "two:2"


async def test_a_session_that_goes_between_calls_is_gone_for_the_next(table) -> None:
    routes = Routes()
    await routes.get(S)
    table.address = ""
    make_older(routes, 0.6)
    await routes.get(S)
    await settled(routes)  # nobody heard that look-up fail: it must not be reported as lost either
    with pytest.raises(Refusal) as refused:
        await routes.get(S)
    assert refused.value.status == 410


async def test_routes_do_not_pile_up(table, monkeypatch) -> None:
    monkeypatch.setattr(relay_routes, "KNOWN_MAX", 5)
    routes = Routes()
    for number in range(20):
        await routes.get(f"ses_{number}")
    assert len(routes._known) <= 5
