"""Following a session: nothing lost, nothing twice, in order, within the second."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from channels.layers import InMemoryChannelLayer
from channels_redis.core import RedisChannelLayer

from console.config.database import channel_layers
from console.live import hub, local_wakes
from console.live.hub import event_page, follow
from console.live.local_wakes import LAYER_IS_SHARED
from console.live.models import EventRecord
from console.live.services import event_record
from support.waiting import eventually
from tinkerscript.wire.events import Event, EventKind

pytestmark = pytest.mark.django_db(transaction=True)
S = "ses_watched"


async def record(number: int, *, session_id: str = S, kind: EventKind = EventKind.EVENT) -> int:
    event = await sync_to_async(event_record)(session_id=session_id, kind=kind, data={"n": number})
    return event.id


async def record_silently(*numbers: int) -> None:
    """Rows without a wake-up, as a process writes them whose in-memory layer is not ours."""
    rows = [
        EventRecord(session_id=S, kind=EventKind.EVENT, data={"n": number}) for number in numbers
    ]
    await EventRecord.objects.abulk_create(rows)


def numbers(events: list[Event]) -> list[int]:
    return [event.data["n"] for event in events]


@pytest.fixture
def looks(monkeypatch) -> list[int]:
    """The cursor of each look that a reader took at the table. Its second is the one at which it
    found nothing.
    """
    looks, event_list = [], hub.event_list
    monkeypatch.setattr(
        hub, "event_list", lambda **names: looks.append(names["after"]) or event_list(**names)
    )
    return looks


async def collect(follower: hub.Follower, count: int, limit: int = 100) -> list[int]:
    got: list[int] = []
    async with asyncio.timeout(25):
        while len(got) < count:
            got += numbers(await follower.next(limit=limit))
    return got


async def test_the_backlog_comes_first_then_what_is_new() -> None:
    first = await record(1)
    await record(2)
    async with follow(session_id=S, after=first) as follower:
        assert await collect(follower, 1) == [2]
        await record(3)
        assert await collect(follower, 1) == [3]
        assert await follower.next(limit=10, timeout_s=0.01) == []


@pytest.mark.system
@pytest.mark.skipif(
    LAYER_IS_SHARED, reason="with Redis the channel layer wakes readers of other processes"
)
async def test_another_process_wakes_a_follower_and_leaves_no_socket_behind(
    monkeypatch, looks, settings
) -> None:
    monkeypatch.setattr(hub, "POLL_INTERVAL_S", 60)
    folder = settings.DATA / "run" / "live" / S
    async with follow(session_id=S, after=await record(0)) as follower:
        await eventually(lambda: looks and list(folder.iterdir()))
        await record_silently(1)
        (folder / "1-of-a-process-that-was-killed").touch()
        program = f"from console.live.local_wakes import readers_wake; readers_wake({S!r})"
        environment = os.environ | {
            "TINKERSCRIPT_DATA": str(settings.DATA), "DJANGO_SETTINGS_MODULE": "console.settings"
        }  # fmt: skip
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, env=environment
        )
        assert await writer.wait() == 0
        assert await collect(follower, 1) == [1]
    assert not folder.exists()


async def test_a_commit_reaches_a_follower_without_waiting_for_the_next_look(
    monkeypatch, looks
) -> None:
    monkeypatch.setattr(hub, "POLL_INTERVAL_S", 60)
    async with follow(session_id=S, after=0) as follower:
        await eventually(lambda: looks)
        await record(1)
        assert await collect(follower, 1) == [1]


async def test_rows_of_which_no_one_tells_come_with_the_next_look_which_is_within_a_second(
    monkeypatch, looks
) -> None:
    assert hub.POLL_INTERVAL_S < 1
    monkeypatch.setattr(hub, "POLL_INTERVAL_S", 0.001)
    async with follow(session_id=S, after=0) as follower:
        # as often as it says: by a pause of its own it would take a minute
        await eventually(lambda: len(looks) > 100)
        await record_silently(1)
        assert await collect(follower, 1) == [1]


async def test_a_slow_follower_reads_on_from_the_table_and_loses_nothing(monkeypatch) -> None:
    monkeypatch.setattr(hub, "RECENT_EVENTS_MAX", 10)
    monkeypatch.setattr(hub, "PAGE", 7)
    async with follow(session_id=S, after=0) as slow, follow(session_id=S, after=0) as quick:
        await record_silently(*range(500))
        assert await collect(quick, 500) == list(range(500))
        assert len(slow.feed.recent) <= 10
        assert await collect(slow, 500, limit=3) == list(range(500))
        await record(500)
        assert await collect(slow, 1) == await collect(quick, 1) == [500]


async def test_followers_of_one_session_share_one_reader(monkeypatch, looks) -> None:
    monkeypatch.setattr(hub, "POLL_INTERVAL_S", 60)
    async with (
        asyncio.timeout(60),
        asyncio.TaskGroup() as group,
        follow(session_id=S, after=0) as first,
    ):
        await eventually(lambda: looks)
        ready = asyncio.Barrier(21)

        async def watch() -> None:
            async with follow(session_id=S, after=0) as follower:
                await ready.wait()
                assert await collect(follower, 1) == [1]

        for _ in range(20):
            group.create_task(watch())
        await ready.wait()
        looks.clear()
        await record(1)
        assert await collect(first, 1) == [1]
    assert len(looks) <= 4  # the new row, and the look that finds no more; not once for each of 21


async def test_sessions_do_not_mix() -> None:
    async with follow(session_id=S, after=0) as follower:
        await record(1, session_id="ses_other")
        await record(2)
        assert await collect(follower, 1) == [2]


async def test_the_last_to_leave_ends_the_reader() -> None:
    async with follow(session_id=S, after=0) as first:
        task = first.feed.task
        async with follow(session_id=S, after=0):
            pass
        assert not task.done()
    assert task.done()
    assert hub.feeds == {}


async def test_a_read_that_fails_is_tried_again(monkeypatch) -> None:
    monkeypatch.setattr(hub, "POLL_INTERVAL_S", 0.02)
    real, broken = hub.event_list, asyncio.Event()

    def flaky(**names):
        if not broken.is_set():
            broken.set()
            raise RuntimeError("the database is away")
        return real(**names)

    async with follow(session_id=S, after=0) as follower:
        monkeypatch.setattr(hub, "event_list", flaky)
        await record(1)
        assert await collect(follower, 1) == [1]


async def test_without_a_layer_the_record_is_still_followed(monkeypatch) -> None:
    def away():
        raise ConnectionError("the layer is away")

    monkeypatch.setattr(hub, "channel_layer", away)
    async with follow(session_id=S, after=0) as follower:
        await record(1)
        assert await collect(follower, 1) == [1]


async def test_a_layer_that_fails_while_it_is_cancelled_does_not_keep_the_reader(
    monkeypatch,
) -> None:
    class Failing(InMemoryChannelLayer):
        async def receive(self, channel: str) -> None:
            listening.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise ConnectionError("the answer was cut off")

    listening, layer = asyncio.Event(), Failing()
    monkeypatch.setattr(hub, "channel_layer", lambda: layer)
    monkeypatch.setattr(hub, "CANCELLED_AGAIN_S", 0.02)
    async with asyncio.timeout(25), follow(session_id=S, after=0):
        await listening.wait()
    assert hub.feeds == {}


def test_a_quiet_channel_is_no_error_of_redis() -> None:
    """The client gives an answer longer than the server takes to say that there is none."""
    config = channel_layers("redis://127.0.0.1:1/0")["default"]["CONFIG"]
    layer = RedisChannelLayer(**config)
    assert layer.create_pool(0).connection_kwargs["socket_timeout"] >= 2 * layer.brpop_timeout


async def test_a_page_waits_for_the_next_entry_of_its_kind() -> None:
    asked = asyncio.create_task(
        event_page(session_id=S, after=0, limit=10, kinds=[EventKind.METRIC], wait_s=60)
    )
    await eventually(lambda: S in hub.feeds)
    other = await record(1)
    await eventually(lambda: hub.feeds[S].head == other)
    assert not asked.done()
    cursor = await record(2, kind=EventKind.METRIC)
    page = await asyncio.wait_for(asked, 25)
    assert (numbers(page.items), page.next_cursor) == ([2], cursor)


async def test_an_empty_page_keeps_its_cursor() -> None:
    cursor = await record(1)
    for wait_s in (0, 0.02):
        page = await event_page(session_id=S, after=cursor, limit=10, wait_s=wait_s)
        assert (page.items, page.next_cursor) == ([], cursor)


async def test_a_folder_that_another_process_removes_meanwhile_is_made_again(
    monkeypatch, settings
) -> None:
    folder, mkdir = settings.DATA / "run" / "live" / S, Path.mkdir

    def removed_once(path: Path, *args: object, **names: object) -> None:
        monkeypatch.setattr(Path, "mkdir", mkdir)
        mkdir(path, *args, **names)
        path.rmdir()

    monkeypatch.setattr(local_wakes, "LAYER_IS_SHARED", False)
    monkeypatch.setattr(Path, "mkdir", removed_once)
    with local_wakes.wakes_heard(S, lambda: None):
        assert len(list(folder.iterdir())) == 1
    assert not folder.exists()
