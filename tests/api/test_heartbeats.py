"""Heartbeats pass by Django's handling of a request: what a runtime is told is the same."""

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from api import heartbeats
from api.heartbeats import PATH, Heartbeats
from api.lease_process import application, plain
from console.server.metrics import REQUESTS
from console.server.request_threads import KeptThreads
from console.sessions.models import Session
from console.sessions.runtime.leases import lease_issue
from support import factories
from support.asgi_calls import Call
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState

pytestmark = pytest.mark.django_db(transaction=True)
BEAT = {"state": "ready", "phase": "waiting for episodes", "progress": 1, "accounting": {"open": 2, "begun": 2}}
OWN = {"x-request-id", "date"}  # of each response alone


class Past:
    """Django behind the short way; ``paths`` are those of the requests that came to it."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.application = KeptThreads(Heartbeats(self._django))

    async def _django(self, scope: Any, receive: Any, send: Any) -> None:
        self.paths.append(scope["path"])
        await plain(scope, receive, send)


@pytest.fixture
def past() -> Past:
    return Past()


@pytest.fixture
def runtime(project) -> tuple[Session, str]:
    return factories.runtime_make(project)


async def told(app: Any, method: str = "POST", path: str = PATH, **given: Any) -> tuple[int, dict[str, str], Any]:
    given = {"content_type": "application/json", "x_request_id": "req_0123456789abcdef"} | given
    status, headers, body = await Call(app, method, path, **given).answer()
    return status, {name: value for name, value in headers.items() if name not in OWN}, json.loads(body or b"null")


async def test_a_heartbeat_is_told_the_same_as_by_django_which_is_not_asked(runtime, past, settings) -> None:
    session, lease = runtime
    settings.PUBLIC_URL = "https://train.example.org"
    kept = {"kind": CheckpointKind.STATE, "state": CheckpointState.REQUESTED, "ordered": True}
    order = await session.checkpoints.acreate(step=1, **kept)
    given = {"key": lease, "body": json.dumps(BEAT).encode()}
    expected = await told(plain, **given)
    assert expected[0] == 200 and expected[2]["checkpoints"] == [{"checkpoint_id": order.id, "kind": "state"}]
    later = json.dumps(BEAT | {"progress": 7}).encode()
    assert await told(past.application, **given | {"body": later}) == expected
    assert past.paths == []
    row = await Session.objects.aget(id=session.id)
    assert row.progress == 7 and row.accounting["open"] == 2


async def test_a_heartbeat_is_counted_as_django_counts_it(runtime, past) -> None:
    _, lease = runtime
    given = {"key": lease, "body": json.dumps(BEAT).encode()}
    counted = []
    for app in (plain, past.application):
        before = _counted()
        await told(app, **given)
        counted.append({key: value - before.get(key, 0.0) for key, value in _counted().items()})
    assert counted[0] == counted[1] and sum(counted[0].values()) == 1


def _counted() -> dict[tuple[str, ...], float]:
    samples = [sample for metric in REQUESTS.collect() for sample in metric.samples if sample.name.endswith("_total")]
    return {tuple(sorted(sample.labels.items())): sample.value for sample in samples if "heartbeat" in str(sample)}


@pytest.mark.parametrize(
    ("expected", "changed"),
    [
        (400, {"body": b"{"}),
        (400, {"body": b""}),
        (400, {"body": json.dumps(BEAT | {"no": 1}).encode()}),
        (400, {"body": json.dumps(BEAT | {"progress": 2**63}).encode()}),
        (400, {"body": json.dumps(BEAT | {"address": "http://elsewhere"}).encode()}),
        (400, {"path": f"{PATH}?no=1"}),
        (400, {"host": "no host at all"}),
        (401, {"key": None}),
        (401, {"key": None, "authorization": "Basic abc"}),
        (409, {"key": "tml-ls-ses_0.00"}),
        (405, {"method": "PUT"}),
    ],
)
async def test_what_is_refused_is_refused_by_django(runtime, past, expected: int, changed: dict[str, Any]) -> None:
    session, lease = runtime
    before = await Session.objects.values().aget(id=session.id)
    given = {"key": lease, "body": json.dumps(BEAT).encode()} | changed
    answer = await told(past.application, **given)
    assert answer[0] == expected and past.paths == [PATH]
    assert answer == await told(plain, **given)
    assert await Session.objects.values().aget(id=session.id) == before


async def test_a_lease_that_was_replaced_changes_nothing(runtime, past) -> None:
    session, lease = runtime
    await sync_to_async(lease_issue)(session=session)
    answer = await told(past.application, key=lease, body=json.dumps(BEAT).encode())
    assert answer[0] == 409 and past.paths == [PATH]
    assert (await Session.objects.aget(id=session.id)).progress != 1


async def test_a_heartbeat_that_fails_is_an_error_of_the_server_in_the_usual_words(runtime, past, monkeypatch) -> None:
    def broken(**_: Any) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(heartbeats, "runtime_heartbeat", broken)
    monkeypatch.setattr("console.sessions.runtime.leases.runtime_heartbeat", broken)
    status, _, body = await told(past.application, key=runtime[1], body=json.dumps(BEAT).encode())
    assert status == 500 and body["error"]["message"] == "Something went wrong on the server." and past.paths == [PATH]


async def test_a_body_that_is_too_long_is_refused_as_such(runtime) -> None:
    body = json.dumps(BEAT | {"phase": "x" * (70 << 10)}).encode()
    status, _, said = await told(application, key=runtime[1], body=body)
    assert status == 413 and "larger than" in said["error"]["message"]


async def test_a_body_in_pieces_is_one_heartbeat(runtime, past) -> None:
    session, lease = runtime

    async def in_pieces(scope: Any, receive: Any, send: Any) -> None:
        whole = await receive()
        pieces = [whole | {"body": whole["body"][:10], "more_body": True}, whole | {"body": whole["body"][10:]}]

        async def receive_piece() -> Any:
            return pieces.pop(0) if pieces else await receive()

        await past.application(scope, receive_piece, send)

    for body, expected in ((json.dumps(BEAT | {"progress": 9}).encode(), 200), (b"[" * 20, 400)):
        assert (await told(in_pieces, key=lease, body=body))[0] == expected
    assert (await Session.objects.aget(id=session.id)).progress == 9 and past.paths == [PATH]


async def test_other_requests_of_runtimes_go_to_django(runtime, past) -> None:
    status, _, _ = await told(past.application, path="/v1/runtime/register", key=runtime[1])
    assert status in (200, 400, 409) and past.paths == ["/v1/runtime/register"]
