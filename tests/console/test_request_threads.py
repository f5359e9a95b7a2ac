"""A request has a thread to itself, which the next request gets, and none whose work may still go on."""

import asyncio
import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from console.asgi import plain
from console.server.request_threads import MAX_KEPT, KeptThreads
from support.asgi_calls import Call
from support.waiting import wait_until


async def nothing(*_: object) -> None:
    """Neither receives nor sends."""


class Seen:
    """An application that notes its threads; ``held`` lets its requests end."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.held = asyncio.Event()
        self.held.set()

    async def __call__(self, scope, receive, send) -> None:
        first = await sync_to_async(threading.current_thread)()
        await self.held.wait()
        assert await sync_to_async(threading.current_thread)() is first, "a request stays in its thread"
        self.threads.append(first)
        if scope.get("fails"):
            raise ValueError("as asked")


async def test_the_next_request_gets_the_thread_of_the_one_before() -> None:
    seen = Seen()
    kept = KeptThreads(seen)
    for _ in range(3):
        await kept({}, nothing, nothing)
    assert len(set(seen.threads)) == 1


async def test_requests_at_once_have_a_thread_each_and_so_many_are_kept() -> None:
    seen = Seen()
    kept = KeptThreads(seen)
    seen.held.clear()
    requests = [asyncio.create_task(kept({}, nothing, nothing)) for _ in range(MAX_KEPT + 3)]
    await asyncio.sleep(0)
    seen.held.set()
    await asyncio.gather(*requests)
    assert len(set(seen.threads)) == MAX_KEPT + 3
    for thread in seen.threads[MAX_KEPT:]:
        thread.join(25)
    assert sum(thread.is_alive() for thread in seen.threads) == MAX_KEPT


async def test_a_thread_whose_request_failed_is_nobodys() -> None:
    seen = Seen()
    with pytest.raises(ValueError, match="as asked"):
        await KeptThreads(seen)({"fails": True}, nothing, nothing)
    await asyncio.to_thread(seen.threads[0].join, 25)
    assert not seen.threads[0].is_alive()


async def test_a_thread_whose_request_was_cancelled_is_nobodys() -> None:
    running, release = threading.Event(), threading.Event()
    found: list[threading.Thread] = []

    def work() -> None:
        found.append(threading.current_thread())
        running.set()
        release.wait(25)

    async def slow(*_: object) -> None:
        await sync_to_async(work)()

    request = asyncio.create_task(KeptThreads(slow)({}, nothing, nothing))
    await asyncio.to_thread(running.wait, 25)
    request.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await request
    await asyncio.to_thread(found[0].join, 25)
    assert not found[0].is_alive()


@pytest.mark.django_db(transaction=True)
async def test_a_request_opens_no_connection_where_the_one_before_left_a_good_one(api_key, opened) -> None:
    kept = KeptThreads(plain)

    async def ask() -> None:
        status, _, _ = await Call(kept, "GET", "/v1/sessions", key=api_key).answer()
        assert status == 200

    await ask()
    opened.clear()
    await ask()
    await ask()
    assert opened == []


@pytest.mark.django_db(transaction=True)
async def test_the_next_request_gets_no_connection_with_a_transaction_open(api_key) -> None:
    found: list[bool] = []

    def leave_open() -> None:
        connection.ensure_connection()
        connection.set_autocommit(False)

    async def django(scope, receive, send) -> None:
        if scope["path"] == "/leave":
            await sync_to_async(leave_open)()
        await plain(scope, receive, send)
        if scope["path"] == "/leave":
            found.append(await sync_to_async(lambda: connection.connection is None)())

    kept = KeptThreads(django)
    await Call(kept, "GET", "/leave", key=api_key).answer()
    status, _, _ = await Call(kept, "GET", "/v1/sessions", key=api_key).answer()
    assert status == 200 and found == [True]


@pytest.mark.django_db(transaction=True)
async def test_a_thread_that_is_not_kept_closes_its_connection(api_key) -> None:
    left: list[BaseDatabaseWrapper] = []

    def look() -> None:
        connection.ensure_connection()
        left.append(connections["default"])
        left[0].inc_thread_sharing()

    async def fails(*_: object) -> None:
        await sync_to_async(look)()
        raise ValueError("as asked")

    with pytest.raises(ValueError, match="as asked"):
        await KeptThreads(fails)({}, nothing, nothing)
    await asyncio.to_thread(wait_until, lambda: left[0].connection is None)
