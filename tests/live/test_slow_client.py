"""Clients that read slowly: they cost the server nothing, get fewer and longer pages, and miss
nothing.
"""

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from console.live.selectors import event_list
from console.users.models import Project
from support import factories
from tinkerscript.wire.events import EventKind, EventPage
from tinkerscript.wire.runtime import Report, ReportEntry

pytestmark = [pytest.mark.system, pytest.mark.django_db(transaction=True)]

# 12 MB: more than the sockets between two processes hold
BURSTS, BURST, LINE_BYTES = 40, 25, 12_000


async def report_burst(http: aiohttp.ClientSession, lease: str, number: int) -> None:
    """As a runtime reports: the commit wakes those who watch."""
    entries = [
        ReportEntry(key=f"{number}.{index}", kind=EventKind.LOG, data={"line": "x" * LINE_BYTES})
        for index in range(BURST)
    ]
    body = Report(entries=entries).model_dump_json()
    async with http.post(
        "/v1/runtime/report", data=body, headers={"Authorization": f"Bearer {lease}"}
    ) as answer:
        assert answer.status == 204, await answer.text()


async def take(watched: aiohttp.ClientWebSocketResponse, cursors: list[int], until: int) -> int:
    """Read pages until ``cursors`` holds so many entries; how many pages it took."""
    pages = 0
    while len(cursors) < until:
        page = EventPage.model_validate_json(await watched.receive_str(timeout=30))
        cursors += [event.cursor for event in page.items]
        pages += 1
    return pages


async def watch(
    http: aiohttp.ClientSession, project: Project, api_key: str
) -> tuple[list[int], int]:
    """The pages that three quick clients got, and those of one that reads only at the end. None
    misses an entry.
    """
    session, lease = await sync_to_async(factories.runtime_make)(project)
    path, headers = f"/ws/v1/sessions/{session.id}", {"Authorization": f"Bearer {api_key}"}
    connections = [await http.ws_connect(path, headers=headers, max_msg_size=0) for _ in range(4)]
    slow, *quick = connections
    seen: list[list[int]] = [[] for _ in quick]
    pages = [0 for _ in quick]
    for burst in range(BURSTS):
        await report_burst(http, lease, burst)
        for index, watched in enumerate(quick):
            pages[index] += await take(watched, seen[index], 1 + (burst + 1) * BURST)
    late: list[int] = []
    late_pages = await take(slow, late, 1 + BURSTS * BURST)
    record = await sync_to_async(event_list)(session_id=session.id, after=0, limit=5000)
    assert late == [event.cursor for event in record]
    assert all(cursors == late for cursors in seen)
    for watched in connections:
        await watched.close()
    return pages, late_pages


@pytest.mark.parametrize("asgi_server", ["uvicorn"], indirect=True)
async def test_a_slow_client_gets_fewer_and_longer_pages_and_misses_nothing(
    http, project: Project, api_key
) -> None:
    pages, late_pages = await watch(http, project, api_key)
    assert min(pages) >= BURSTS
    assert late_pages < BURSTS


@pytest.mark.parametrize("asgi_server", ["daphne"], indirect=True)
async def test_daphne_does_not_wait_for_a_slow_client_which_still_misses_nothing(
    http, project, api_key
) -> None:
    """Daphne takes each page at once and keeps in its memory what the client has not read: why
    uvicorn is the default.

    Should it learn to wait, this fails, and it can be tested like uvicorn.
    """
    pages, late_pages = await watch(http, project, api_key)
    assert min(pages) >= BURSTS
    assert late_pages >= BURSTS
