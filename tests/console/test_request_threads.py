"""Requests to Django have a fixed number of threads, which keep their connections to the
database.
"""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from console.asgi import application
from console.server.request_threads import RESERVED, THREADS, Handler
from console.users.models import User
from support import factories
from support.asgi_calls import Call
from support.signing_in import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
GET = {"method": "GET", "path": "/"}


class Seen(Handler):
    """Notes the threads of its requests; ``held`` lets these end."""

    def __init__(self) -> None:
        super().__init__(browsers=False)
        self.threads: list[threading.Thread] = []
        self.held = asyncio.Event()

    async def handle(self, scope, receive, send) -> None:
        thread = await sync_to_async(threading.current_thread)()
        self.threads.append(thread)
        await self.held.wait()
        assert await sync_to_async(threading.current_thread)() is thread, (
            "a request stays in its thread"
        )


@pytest.fixture
def handler() -> Iterator[Handler]:
    """One of the test's own, whose threads leave no connection to PostgreSQL open."""
    made = Handler()
    yield made
    for thread in (*made._threads, *made._reserved):  # noqa: SLF001
        thread.submit(connections.close_all).result(25)


async def test_the_first_idle_thread_serves_and_there_are_no_more_than_so_many() -> None:
    seen = Seen()
    seen.held.set()
    for _ in range(3):
        await seen(GET, None, None)
    assert len(set(seen.threads)) == 1
    await asyncio.gather(*(seen(GET, None, None) for _ in range(THREADS * 3)))
    assert len(set(seen.threads)) <= THREADS


async def test_a_request_that_waits_keeps_no_thread_from_the_next() -> None:
    seen = Seen()
    waiting = [asyncio.create_task(seen(GET, None, None)) for _ in range(THREADS * 2)]
    while len(seen.threads) < THREADS * 2:
        await asyncio.sleep(0)
    seen.held.set()
    await asyncio.gather(*waiting)
    assert len(set(seen.threads)) <= THREADS


@pytest.mark.parametrize("name", ["", "/events"])  # a view in a thread, and one that waits
async def test_a_response_that_is_read_slowly_is_no_load_of_its_thread(
    api_key, project, handler: Handler, name: str
) -> None:
    is_sent, read = asyncio.Event(), asyncio.Event()
    session = await sync_to_async(factories.session_make)(project)

    async def slow(scope, receive, send) -> None:
        async def send_slowly(message: dict) -> None:
            is_sent.set()
            await read.wait()
            await send(message)

        await handler(scope, receive, send_slowly)

    call = Call(slow, "GET", f"/v1/sessions/{session.id}{name}", key=api_key)
    await asyncio.wait_for(is_sent.wait(), 25)
    assert [thread.load for thread in handler._threads if thread.load] == []  # noqa: SLF001
    read.set()
    status, _, _ = await call.answer()
    assert status == 200


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("GET /healthz", True),
        ("POST /v1/runtime/heartbeat", True),
        ("POST /v1/sessions/ses_1/heartbeats", True),
        ("POST /v1/sessions/ses_1/episodes", True),
        ("POST /v1/sessions/ses_1/episodes/ep_1/end", True),
        ("GET /v1/sessions/ses_1/episodes", False),
        ("POST /v1/runtime/uploads", False),
        ("GET /v1/checkpoints", False),
    ],
)
def test_what_must_not_wait_for_an_object_store_has_threads_of_its_own(
    asked: str, expected: bool
) -> None:
    assert bool(RESERVED.fullmatch(asked)) is expected


async def test_a_thread_whose_request_was_cancelled_ends_that_before_its_next() -> None:
    done: list[str] = []
    running, release = threading.Event(), threading.Event()

    def work() -> None:
        running.set()
        release.wait(25)
        done.append("first")

    class Slow(Handler):
        async def handle(self, scope, receive, send) -> None:
            await sync_to_async(work if scope["slow"] else lambda: done.append("next"))()

    handler = Slow(browsers=False)
    handler._threads = handler._threads[:1]  # noqa: SLF001
    first = asyncio.create_task(handler(GET | {"slow": True}, None, None))
    await asyncio.to_thread(running.wait, 25)
    first.cancel()
    second = asyncio.create_task(handler(GET | {"slow": False}, None, None))
    await asyncio.sleep(0)
    release.set()
    await asyncio.wait([first, second])
    assert done == ["first", "next"]


async def test_a_request_opens_no_connection_where_the_one_before_left_a_good_one(
    api_key, opened
) -> None:
    async def ask() -> None:
        status, _, _ = await Call(application, "GET", "/v1/sessions", key=api_key).answer()
        assert status == 200

    await ask()
    opened.clear()
    await ask()
    await ask()
    assert opened == []


async def test_a_view_that_waits_has_the_headers_of_every_other(api_key, project) -> None:
    session = await sync_to_async(factories.session_make)(project)
    path = f"/v1/sessions/{session.id}"
    own = {"content-length", "vary", "x-request-id", "ratelimit-remaining", "ratelimit-reset"}
    found = []
    for each in (path, f"{path}/events"):
        status, headers, body = await Call(application, "GET", each, key=api_key).answer()
        assert status == 200 and headers["content-length"] == str(len(body))
        found.append({name: value for name, value in headers.items() if name not in own})
    assert found[0] == found[1]
    status, _, _ = await Call(
        application, "GET", f"{path}/events", key=api_key, host="no host"
    ).answer()
    assert status == 400


async def test_a_person_may_ask_a_view_that_waits_and_writes_with_the_token_of_the_page(
    alice: User, project
) -> None:
    session = await sync_to_async(factories.session_make)(project)
    browser = await sync_to_async(signed_in)(alice)
    cookie = "; ".join(f"{name}={each.value}" for name, each in browser.cookies.items())
    path = f"/v1/sessions/{session.id}"
    status, _, _ = await Call(application, "GET", f"{path}/events", cookie=cookie).answer()
    assert status == 200
    status, _, body = await Call(
        application, "POST", f"{path}/episodes", cookie=cookie, body=b"{}"
    ).answer()
    assert status == 403 and b"CSRF" in body
    status, _, _ = await Call(
        application, "GET", f"{path}/events", cookie="sessionid=nobody"
    ).answer()
    assert status == 401
