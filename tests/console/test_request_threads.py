"""A request has a thread to itself, which the next request gets, and none whose work may still go on."""

import asyncio
import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from console.asgi import plain
from console.server.request_threads import MAX_KEPT, KeptThreads
from support.asgi_calls import Call


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
async def test_a_thread_that_is_kept_has_no_connection_of_the_request_before(api_key) -> None:
    open_in: list[bool] = []

    async def django(scope, receive, send) -> None:
        if scope["path"] == "/look":
            open_in.append(await sync_to_async(lambda: connection.connection is not None)())
        else:
            await plain(scope, receive, send)

    kept = KeptThreads(django)
    status, _, _ = await Call(kept, "GET", "/v1/sessions", key=api_key).answer()
    await kept({"path": "/look"}, nothing, nothing)
    assert status == 200 and open_in == [False]
