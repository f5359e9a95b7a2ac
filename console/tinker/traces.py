"""What happened in a Tinker session, as a trace that Perfetto (ui.perfetto.dev) shows.

The form is Chrome's JSON trace events: a process for each runtime, in it a thread for each kind of
entry on its record and one for each model and sampling session, with the operations that were done
for it and how long each took.
"""

import json
from typing import Any

from django.conf import settings

from console.live.models import EventRecord
from console.object_store import client as object_store
from console.object_store.links import read_link
from console.tinker.models import TinkerRuntime, TinkerSession
from console.tinker.work import spans_of

MAX_EVENTS = 50_000  # of each runtime: the newest


def trace_url(*, tinker_session: TinkerSession) -> str | None:
    """A URL of the trace as it is now; None for a session that never had a runtime. Raises
    StorageUnavailable.
    """
    runtimes = list(tinker_session.runtimes.order_by("id"))
    if not runtimes:
        return None
    events = [
        event for number, runtime in enumerate(runtimes, 1) for event in _events(number, runtime)
    ]
    # Beside what else the session has in the store, so that it goes with it.
    key = f"sessions/{runtimes[0].session_id}/traces/{tinker_session.id}.json"
    object_store.put(key, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode())
    return read_link(key, expires_s=settings.TRANSFER_URL_S)


def _events(number: int, runtime: TinkerRuntime) -> list[dict[str, Any]]:
    name = {"name": f"{runtime.base_model} ({runtime.session_id})"}
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": number, "name": "process_name", "args": name}
    ]
    threads: dict[str, int] = {}
    newest = EventRecord.objects.filter(session_id=runtime.session_id).order_by("-id")[:MAX_EVENTS]
    for record in reversed(newest):
        thread = _thread(number, str(record.kind), threads, events)
        at_us = int(record.at.timestamp() * 1e6)
        event = {"ph": "i", "s": "t", "pid": number, "tid": thread, "ts": at_us, "cat": record.kind}
        events.append(
            event | {"name": str(record.data.get("name", record.kind)), "args": record.data}
        )
    for span in spans_of(session_id=runtime.session_id):
        if not span["of"].startswith(f"{runtime.tinker_session_id}:"):
            continue  # another client's, on the same runtime
        # A save goes on beside later operations of its model, and what overlaps is no thread.
        of = f"{span['of']} saving" if span["kind"].startswith("save_") else span["of"]
        thread = _thread(number, of, threads, events)
        times = {"ts": int(span["began_at"] * 1e6), "dur": int(span["seconds"] * 1e6)}
        counts = {"count": span.get("count", 1), "tokens": span.get("tokens", 0)}
        whole = {
            "ph": "X",
            "pid": number,
            "tid": thread,
            "cat": "operation",
            "name": span["kind"],
            "args": counts,
        }
        events.append(whole | times)
    return events


def _thread(number: int, name: str, threads: dict[str, int], events: list[dict[str, Any]]) -> int:
    """The number of a thread by its name, which is told once."""
    if name not in threads:
        threads[name] = len(threads) + 1
        told = {
            "ph": "M",
            "pid": number,
            "tid": threads[name],
            "name": "thread_name",
            "args": {"name": name},
        }
        events.append(told)
    return threads[name]
