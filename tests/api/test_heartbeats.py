"""Heartbeats: an ordinary route of the lease process, with threads that nothing else keeps busy."""

import asyncio
import json
import threading
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from api.lease_process import application
from console.server import request_threads
from console.server.metrics import REQUESTS
from console.sessions.models import Session
from console.sessions.runtime import leases
from console.sessions.runtime.leases import lease_issue
from support import factories
from support.asgi_calls import Call
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/v1/runtime/heartbeat"
BEAT = {"state": "ready", "phase": "waiting for episodes", "progress": 1, "accounting": {"open": 2}}


@pytest.fixture
def runtime(project) -> tuple[Session, str]:
    return factories.runtime_make(project)


async def told(
    body: Any, method: str = "POST", path: str = PATH, **given: Any
) -> tuple[int, dict[str, str], Any]:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"content_type": "application/json"} | given
    status, headers, answer = await Call(application, method, path, body=sent, **given).answer()
    return status, headers, json.loads(answer or b"null")


def counted() -> float:
    samples = [sample for metric in REQUESTS.collect() for sample in metric.samples]
    return sum(
        each.value for each in samples if each.name.endswith("_total") and "heartbeat" in str(each)
    )


async def test_a_heartbeat_is_answered_with_orders_and_counted(runtime) -> None:
    session, lease = runtime
    kept = {"kind": CheckpointKind.STATE, "state": CheckpointState.REQUESTED, "ordered": True}
    order = await session.checkpoints.acreate(step=1, **kept)
    before = counted()
    status, headers, orders = await told(BEAT | {"progress": 7}, key=lease)
    assert status == 200 and orders["checkpoints"] == [{"checkpoint_id": order.id, "kind": "state"}]
    assert headers["cache-control"] == "no-store" and headers["x-content-type-options"] == "nosniff"
    assert counted() == before + 1
    row = await Session.objects.aget(id=session.id)
    assert row.progress == 7 and row.accounting["open"] == 2


@pytest.mark.parametrize(
    ("expected", "body", "changed"),
    [
        (400, b"{", {}),
        (400, BEAT | {"no": 1}, {}),
        (400, BEAT, {"path": f"{PATH}?no=1"}),
        (401, BEAT, {"key": None}),
        (409, BEAT, {"key": "tml-ls-ses_0.00"}),
        (405, BEAT, {"method": "PUT"}),
        (413, BEAT | {"phase": "x" * (70 << 10)}, {}),
    ],
)
async def test_what_is_refused_changes_nothing(
    runtime, expected: int, body: Any, changed: dict[str, Any]
) -> None:
    session, lease = runtime
    before = await Session.objects.values().aget(id=session.id)
    assert (await told(body, **{"key": lease} | changed))[0] == expected
    assert await Session.objects.values().aget(id=session.id) == before


async def test_a_lease_that_was_replaced_changes_nothing(runtime) -> None:
    session, lease = runtime
    await sync_to_async(lease_issue)(session=session)
    assert (await told(BEAT, key=lease))[0] == 409
    assert (await Session.objects.aget(id=session.id)).progress != 1


async def test_a_heartbeat_is_taken_while_all_threads_of_other_requests_wait(
    runtime, monkeypatch
) -> None:
    """As they do where the object store is slow."""
    _, lease = runtime
    release, entered = threading.Event(), threading.Semaphore(0)
    checked = leases.lease_check

    def slow(*, token: str) -> Session:
        if token == "slow":
            entered.release()
            release.wait(25)
        return checked(token=token)

    monkeypatch.setattr("api.rest.authentication.lease_check", slow)
    others = [
        asyncio.create_task(told({}, path="/v1/runtime/documents", key="slow"))
        for _ in range(request_threads.THREADS + 1)
    ]
    for _ in range(request_threads.THREADS):
        assert await asyncio.to_thread(entered.acquire, timeout=25)
    assert (await told(BEAT, key=lease))[0] == 200
    release.set()
    assert {status for status, _, _ in await asyncio.gather(*others)} <= {401, 409}
