"""Watchers of one key that are checked at the same moment cost one look in the database."""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from console.errors import Forbidden
from console.server.ttl_cache import TtlCache
from console.sessions import live_permission
from console.sessions.live_permission import live_permission_check
from support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
SCOPE = {"headers": [(b"authorization", b"Bearer tml-ts_1")]}


class Looks:
    """In the place of the look in the database: it ends once ``goes_on`` is set."""

    def __init__(self) -> None:
        self.watched: list[str] = []
        self.goes_on = threading.Event()
        self.error: Exception | None = None

    def __call__(self, scope: Mapping[str, Any], watched: str) -> None:
        self.watched.append(watched)
        assert self.goes_on.wait(20)
        if self.error:
            raise self.error


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    looks = Looks()
    monkeypatch.setattr(live_permission, "_session_check", looks)
    permissions = TtlCache(live_permission._checked, fresh_s=live_permission.FRESH_S)  # noqa: SLF001
    monkeypatch.setattr(live_permission, "_permissions", permissions)
    yield looks
    looks.goes_on.set()


def ask(watched: str, many: int = 1) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(live_permission_check(SCOPE, watched)) for _ in range(many)]


async def test_a_hundred_at_once_are_one_look(looks: Looks) -> None:
    asking = ask("ses_1", 100)
    await eventually(lambda: looks.watched == ["ses_1"])
    late = ask("ses_1", 100)
    other = ask("ses_2")
    looks.goes_on.set()
    await asyncio.gather(*asking, *late, *other)
    assert looks.watched == ["ses_1", "ses_2"]


async def test_a_watcher_that_goes_takes_the_look_from_no_other(looks: Looks) -> None:
    first, second = ask("ses_1", 2)
    await eventually(lambda: bool(looks.watched))
    first.cancel()
    await asyncio.wait([first])
    looks.goes_on.set()
    await second
    assert first.cancelled() and looks.watched == ["ses_1"]


async def test_a_refusal_is_told_to_all_and_not_remembered(looks: Looks) -> None:
    looks.error = Forbidden("no")
    asking = ask("ses_1", 3)
    await eventually(lambda: bool(looks.watched))
    looks.goes_on.set()
    told = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in told] == [Forbidden] * 3
    looks.error = None
    await live_permission_check(SCOPE, "ses_1")
    assert looks.watched == ["ses_1", "ses_1"]


async def test_what_was_allowed_is_asked_anew_once_it_is_not_fresh(looks: Looks) -> None:
    looks.goes_on.set()
    await live_permission_check(SCOPE, "ses_1")
    await live_permission_check(SCOPE, "ses_1")
    assert looks.watched == ["ses_1"]
    deadline = time.monotonic() + 20
    while len(looks.watched) == 1 and time.monotonic() < deadline:
        await live_permission_check(SCOPE, "ses_1")
    assert time.monotonic() < deadline
