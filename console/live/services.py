"""Writes to the record. The row is the message; the channel layer only signals that there is
one.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import BaseChannelLayer, InMemoryChannelLayer, get_channel_layer
from django.db import connection, transaction

from console.live.local_wakes import readers_wake
from console.live.models import EventRecord, LogChunk, ResourceChunk
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import ReportEntry

WAKE_TIMEOUT_S = 2.0


def event_record(
    *, session_id: str, kind: EventKind, data: dict[str, Any], key: str | None = None
) -> EventRecord:
    """Add one entry and wake those who watch the session, once the surrounding transaction commits.

    ``key`` names the entry within its session: a second entry of that name is not written, the
    first is returned.
    """
    with transaction.atomic(savepoint=False):  # nothing here fails but with all else
        _in_order(session_id)
        if key is None:
            record = EventRecord.objects.create(session_id=session_id, kind=kind, data=data)
        else:
            record, _created = EventRecord.objects.get_or_create(
                session_id=session_id, key=key, defaults={"kind": kind, "data": data}
            )
        _wake_on_commit(session_id)
    return record


def event_note(session_id: str, name: str, /, **data: Any) -> None:
    """Add one entry of the control plane's own, called ``name``, as ``event_record`` does."""
    event_record(session_id=session_id, kind=EventKind.EVENT, data={"name": name} | data)


def events_record(*, session_id: str, entries: Sequence[ReportEntry]) -> None:
    """Add what a runtime reports, in its order. Entries whose key is there already are left as they
    are.
    """
    rows = [
        EventRecord(session_id=session_id, key=entry.key, kind=entry.kind, data=entry.data)
        for entry in entries
    ]
    with transaction.atomic(savepoint=False):
        _in_order(session_id)
        EventRecord.objects.bulk_create(rows, ignore_conflicts=True)
        _wake_on_commit(session_id)


def events_delete(*, session_id: str) -> None:
    """Remove the whole record of a session that is being deleted."""
    EventRecord.objects.filter(session_id=session_id).delete()
    ResourceChunk.objects.filter(session_id=session_id).delete()
    LogChunk.objects.filter(session_id=session_id).delete()


def channel_layer() -> BaseChannelLayer:
    """The layer that the settings name: there is always one."""
    layer = get_channel_layer()
    assert layer is not None, "CHANNEL_LAYERS names one"
    return layer


def group_name(session_id: str) -> str:
    """The channel group of those who watch a session."""
    return f"session.{session_id}"


def _in_order(session_id: str) -> None:
    """Make cursors of one session grow in the order of commit.

    SQLite has one writer at a time. PostgreSQL hands out numbers before it commits, so a reader
    could pass a number that appears later: writers of one session take turns there.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [group_name(session_id)])


def _wake_on_commit(session_id: str) -> None:
    # robust: the row is committed by then; watchers who miss the wake-up find it by looking every
    # half second.
    transaction.on_commit(lambda: _wake_readers(session_id), robust=True)


def _wake_readers(session_id: str) -> None:
    readers_wake(session_id)
    layer = channel_layer()
    # Where the layer is this process's memory and nobody here reads the record, there is nobody to
    # find by it: a way to the event loop and back, for each entry. Who begins to read just now
    # looks at the rows after that.
    if not isinstance(layer, InMemoryChannelLayer) or group_name(session_id) in layer.groups:
        async_to_sync(_wake)(session_id)


async def _wake(session_id: str) -> None:
    message = {"type": "session.changed", "session_id": session_id}
    async with asyncio.timeout(WAKE_TIMEOUT_S):
        await channel_layer().group_send(group_name(session_id), message)
