"""The server as it runs: a process of its own, over real sockets, that learns of what is new by
wake-ups alone.
"""

import asyncio

import aiohttp
import pytest
from aiohttp import web
from asgiref.sync import sync_to_async

from console.live.services import event_record
from console.sessions.models import Session
from console.users.models import Project
from support import factories
from support.asgi_calls import FakeGateway, episode_key
from tinkerscript.wire.events import EventKind, EventPage
from tinkerscript.wire.runtime import Report, ReportEntry

pytestmark = [pytest.mark.system, pytest.mark.django_db(transaction=True)]


async def live_page(watched: aiohttp.ClientWebSocketResponse) -> EventPage:
    return EventPage.model_validate_json(await watched.receive_str(timeout=25))


async def test_a_report_reaches_a_watcher_by_its_wake_up(
    http, project: Project, api_key: str
) -> None:
    session, lease = await sync_to_async(factories.runtime_make)(project)
    headers = {"Authorization": f"Bearer {api_key}"}
    async with http.ws_connect(f"/ws/v1/sessions/{session.id}", headers=headers) as watched:
        await live_page(watched)  # the backlog
        report = Report(
            entries=[ReportEntry(key="1", kind=EventKind.LOG, data={"line": "by report"})]
        )
        posted = await http.post(
            "/v1/runtime/report",
            data=report.model_dump_json(),
            headers={"Authorization": f"Bearer {lease}"},
        )
        assert posted.status == 204
        assert (await live_page(watched)).items[0].data == {"line": "by report"}
        # Written by another process, as the reconciler does: its in-memory layer is not the
        # server's.
        await sync_to_async(event_record)(
            session_id=session.id, kind=EventKind.LOG, data={"line": "from outside"}
        )
        page = await live_page(watched)
        assert page.items[0].data == {"line": "from outside"}
    path = f"/v1/sessions/{session.id}/events?after={page.items[0].cursor - 1}"
    async with http.get(path, headers=headers) as answer:
        assert EventPage.model_validate_json(await answer.read()).items == page.items


async def test_a_long_poll_returns_when_there_is_something(
    http, project: Project, api_key: str
) -> None:
    session = await sync_to_async(factories.session_make)(project)
    first = await sync_to_async(event_record)(
        session_id=session.id, kind=EventKind.LOG, data={"line": "1"}
    )
    path = f"/v1/sessions/{session.id}/events?after={first.id}&wait_s=20"
    asked = asyncio.create_task(http.get(path, headers={"Authorization": f"Bearer {api_key}"}))
    # The server is a process of its own: that it holds the request shows only in no response
    # coming.
    assert not (await asyncio.wait({asked}, timeout=0.3))[0]
    await sync_to_async(event_record)(session_id=session.id, kind=EventKind.LOG, data={"line": "2"})
    async with await asked as answer:
        page = EventPage.model_validate_json(await answer.read())
    assert [event.data for event in page.items] == [{"line": "2"}], (
        "nothing: it was held for its 20 s"
    )


async def test_the_relay_streams_and_hangs_up_over_real_sockets(
    http, asgi_server, project: Project
) -> None:
    turns: asyncio.Queue[bytes] = asyncio.Queue()
    is_gone = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            while True:
                await response.write(await turns.get())
        finally:
            is_gone.set()

    gateway = FakeGateway()
    gateway.answer = stream
    await gateway.start()
    session, _ = await sync_to_async(factories.runtime_make)(project)
    await Session.objects.filter(id=session.id).aupdate(address=gateway.address)
    headers = {"Authorization": f"Bearer {episode_key(session.id)}"}
    try:
        turns.put_nowait(b"data: 0\n\n")
        answer = await http.post("/openai/v1/chat/completions", data=b"{}", headers=headers)
        # The gateway's own is not passed on. Daphne writes none.
        assert len(answer.headers.getall("Date", [])) == (1 if asgi_server == "uvicorn" else 0)
        async with asyncio.timeout(25):
            assert await answer.content.readany() == b"data: 0\n\n"
            for number in range(1, 4):
                piece = f"data: {number}\n\n".encode()
                turns.put_nowait(piece)
                assert await answer.content.readany() == piece
            answer.close()
            await is_gone.wait()
    finally:
        await gateway.stop()


async def test_a_begin_that_no_one_waits_for_is_withdrawn(
    http, project: Project, api_key: str
) -> None:
    is_held, is_gone = asyncio.Event(), asyncio.Event()

    async def hold(request: web.Request) -> web.Response:
        is_held.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_gone.set()

    gateway = FakeGateway()
    gateway.answer = hold
    await gateway.start()
    session, _ = await sync_to_async(factories.runtime_make)(project)
    await Session.objects.filter(id=session.id).aupdate(address=gateway.address)
    path = f"/v1/sessions/{session.id}/episodes"
    asked = asyncio.create_task(
        http.post(path, data=b"{}", headers={"Authorization": f"Bearer {api_key}"})
    )
    try:
        async with asyncio.timeout(25):
            await is_held.wait()
            asked.cancel()
            await is_gone.wait()
    finally:
        await gateway.stop()


async def test_a_watcher_goes_on_after_the_long_poll_that_began_the_reading_has_left(
    http, project: Project, api_key: str
) -> None:
    session, _ = await sync_to_async(factories.runtime_make)(project)
    headers = {"Authorization": f"Bearer {api_key}"}
    path = f"/v1/sessions/{session.id}/events?after=0&wait_s=20&kind=log"
    asked = asyncio.create_task(http.get(path, headers=headers))
    # The server is a process of its own: that it holds the request shows only in no response
    # coming.
    assert not (await asyncio.wait({asked}, timeout=0.3))[0]
    async with http.ws_connect(f"/ws/v1/sessions/{session.id}", headers=headers) as watched:
        for number in range(3):
            await sync_to_async(event_record)(
                session_id=session.id, kind=EventKind.LOG, data={"line": f"{number}"}
            )
            lines: list[str] = []
            while f"{number}" not in lines:
                lines = [event.data.get("line") for event in (await live_page(watched)).items]
            (await asked).close()


# the limit is of console.server.uvicorn
@pytest.mark.parametrize("asgi_server", ["uvicorn"], indirect=True)
async def test_a_head_without_an_end_is_refused(origin: str, http) -> None:
    host, _, port = origin.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-long: " + b"y" * 80_000)
    async with asyncio.timeout(30):
        assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
        while await reader.read(1000):
            pass  # to the end: the connection is closed
    writer.close()
    async with http.get("/healthz", headers={"x-long": "y" * 5000}) as answer:
        assert answer.status == 200
