"""What operators read: metrics that say what happened, to those who may, and a readiness that says
what is wrong.
"""

import asyncio
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from aiohttp import web
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from console.asgi import application
from console.live.services import event_record
from console.object_store.client import Store
from console.object_store.free_space import Room
from console.operations import readiness
from console.scheduling.leader import leader_release, leader_renew
from console.scheduling.models import WarmRuntime
from console.scheduling.recovery import restart_count
from console.server.metrics import WEBSOCKET_CLIENTS
from console.sessions.models import Checkpoint, Session
from console.users.models import Project
from console.webhooks.models import Delivery
from console.webhooks.services import webhook_create
from support import factories
from support.asgi_calls import Call, FakeGateway, episode_key
from support.waiting import eventually
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookTopic

CHAT = "/openai/v1/chat/completions"


def count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def scraped(client: Client, **extra: str) -> dict[tuple, float]:
    answer = client.get("/metrics", **extra)
    assert answer.status_code == 200, answer.content
    families = text_string_to_metric_families(answer.content.decode())
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_responses_are_counted_by_the_pattern_of_their_address(
    client_for, api_key, db: None
) -> None:
    labels = {"route": "v1/sessions/<session_id>", "method": "GET", "status": "404"}
    before, nowhere = count("tinkerscript_http_requests_total", **labels), count_nowhere()
    for session_id in ("ses_a", "ses_b"):
        assert client_for(api_key).get(f"/v1/sessions/{session_id}").status_code == 404
    assert count("tinkerscript_http_requests_total", **labels) == before + 2
    assert count("tinkerscript_http_request_seconds_count", route=labels["route"]) >= before + 2
    assert client_for(api_key).generic("BREW", "/metrics").status_code == 200
    assert count_nowhere() == nowhere + 1


def count_nowhere() -> float:
    return count("tinkerscript_http_requests_total", route="metrics", method="other", status="200")


@pytest.mark.django_db(transaction=True)
async def test_responses_through_the_server_are_counted_too() -> None:
    labels = {"route": "healthz", "method": "GET", "status": "200"}
    before = count("tinkerscript_http_requests_total", **labels)
    await Call(application, "GET", "/healthz").answer()
    assert count("tinkerscript_http_requests_total", **labels) == before + 1


def test_sessions_the_queue_and_the_reconciler_are_read_from_the_tables(
    client: Client, project: Project
) -> None:
    factories.session_make(project)
    factories.session_make(project)
    factories.runtime_make(project)
    assert leader_renew(holder="a", now=timezone.now() - timedelta(seconds=2), tick_s=0.25)
    values = scraped(client)
    assert values["tinkerscript_sessions", "queued"] == values["tinkerscript_queue_length",] == 2
    assert values["tinkerscript_sessions", "ready"] == 1
    assert values["tinkerscript_sessions", "failed"] == 0
    assert {name[1] for name in values if name[0] == "tinkerscript_sessions"} == {
        state.value for state in SessionState
    }
    assert values["tinkerscript_reconciler_tick_seconds",] == 0.25
    assert 2 <= values["tinkerscript_reconciler_age_seconds",] < 60
    leader_release(holder="a")
    assert ("tinkerscript_reconciler_tick_seconds",) not in scraped(client)


@pytest.mark.django_db(transaction=True)
async def test_a_call_through_the_relay_is_counted_with_its_bytes(
    gateway: FakeGateway, served: Session
) -> None:
    may_end = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        await may_end.wait()
        return web.Response(body=b"y" * 300)

    gateway.answer = answer
    before = [count("tinkerscript_relay_bytes_total", direction=name) for name in ("up", "down")]
    answered = count("tinkerscript_relay_requests_total", status="200")
    refused = count("tinkerscript_relay_requests_total", status="401")
    in_flight = count("tinkerscript_relay_in_flight")
    call = Call(application, "POST", CHAT, key=episode_key(served.id), body=b"x" * 200)
    await eventually(lambda: bool(gateway.requests))
    assert count("tinkerscript_relay_in_flight") == in_flight + 1
    may_end.set()
    await call.answer()
    await call.task
    assert (await Call(application, "POST", CHAT, key="wrong").answer())[0] == 401
    after = [count("tinkerscript_relay_bytes_total", direction=name) for name in ("up", "down")]
    assert after[0] - before[0] == 200
    assert after[1] - before[1] >= 300
    assert count("tinkerscript_relay_in_flight") == in_flight
    assert count("tinkerscript_relay_requests_total", status="200") == answered + 1
    assert count("tinkerscript_relay_requests_total", status="401") == refused + 1


def test_websocket_clients_are_among_the_metrics(client: Client, db: None) -> None:
    with WEBSOCKET_CLIENTS.track_inprogress():
        assert scraped(client)["tinkerscript_websocket_clients",] == 1
    assert scraped(client)["tinkerscript_websocket_clients",] == 0


def test_without_a_token_only_this_machine_reads_metrics(client: Client, db: None) -> None:
    for here in ("127.0.0.1", "127.9.9.9", "::1"):
        assert client.get("/metrics", REMOTE_ADDR=here).status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="10.0.0.7").status_code == 403
    # A proxy on this machine comes from loopback with whatever the world sent it.
    for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
        assert client.get("/metrics", headers={name: "127.0.0.1"}).status_code == 403


def test_with_a_token_nothing_else_opens_the_metrics(client: Client, db: None, settings) -> None:
    settings.METRICS_TOKEN = "scrape-me"
    assert client.get("/metrics").status_code == 401
    for wrong in ("Bearer scrape", "Bearer é", "Basic scrape-me", "scrape-me"):
        assert client.get("/metrics", headers={"Authorization": wrong}).status_code == 401
    right = {"Authorization": "Bearer scrape-me"}
    assert client.get("/metrics", headers=right, REMOTE_ADDR="10.0.0.7").status_code == 200


@pytest.fixture
def store_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a store that answers, as S3 does to strangers."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(readiness, "store_get", lambda: Store(url, "a", "b", "c", "d"))
        yield url
        server.shutdown()


def test_readiness_is_ok_when_all_is_there(client: Client, db: None, store_url: str) -> None:
    leader_renew(holder="a", now=timezone.now())
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_readiness_names_what_is_wrong_and_serves_on(client: Client, db: None, monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    store = Store(f"http://127.0.0.1:{port}", "a", "b", "c", "d")
    monkeypatch.setattr(readiness, "store_get", lambda: store)
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "degraded"
    reconciler, object_store = answer.json()["problems"]
    assert "manage.py reconcile" in reconciler
    assert f"127.0.0.1:{port}" in object_store
    assert client.get("/readyz", REMOTE_ADDR="203.0.113.9").json() == {"status": "degraded"}


def test_readiness_names_a_store_without_room(db: None, monkeypatch) -> None:
    monkeypatch.setattr("console.object_store.free_space.room_get", lambda: Room(9, 1000))
    assert any("store is nearly full" in each for each in readiness.problems_find())


def test_a_stranger_learns_of_readiness_and_nothing_more(client: Client, db: None) -> None:
    (newest,) = MigrationLoader(None).graph.leaf_nodes("training")
    MigrationRecorder(connection).record_unapplied(*newest)
    answer = client.get("/readyz", REMOTE_ADDR="203.0.113.9")
    assert answer.status_code == 503
    assert newest[1] not in answer.content.decode() and "migrat" not in answer.content.decode()


def test_readiness_asks_the_store_once_however_often_it_is_asked(
    client: Client, db: None, monkeypatch
) -> None:
    asked: list[None] = []
    monkeypatch.setattr(readiness, "problems_find", lambda: asked.append(None) or ["a problem"])
    assert [client.get("/readyz").json()["problems"] for _ in range(5)] == [["a problem"]] * 5
    assert len(asked) == 1


def test_a_database_that_lacks_a_migration_is_not_ready(client: Client, db: None) -> None:
    (newest,) = MigrationLoader(None).graph.leaf_nodes("training")
    MigrationRecorder(connection).record_unapplied(*newest)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert newest[1] in answer.json()["error"]["message"]
    assert "manage.py migrate" in answer.json()["error"]["message"]


def test_what_runs_ill_is_read_from_the_tables(
    client: Client, project: Project, owner_webhook
) -> None:
    now = timezone.now()
    for minutes in (5, 90):
        session = factories.session_make(project)
        Session.objects.filter(id=session.id).update(state_since=now - timedelta(minutes=minutes))
    factories.session_make(
        project, state=SessionState.FAILED, failure={"code": "disk_full", "cause": "x"}
    )
    serving, _lease = factories.runtime_make(project, state_since=now - timedelta(hours=3))
    Checkpoint.objects.create(
        session=serving, kind="state", state="committed", committed_at=now - timedelta(minutes=20)
    )
    for step in (1, 2):
        data = {
            "step": step,
            "tokens_trained": 3000,
            "rollout_s": 2.0 * step,
            "train_s": 4.0,
            "handover_s": 0.5,
        }
        event_record(session_id=serving.id, kind=EventKind.METRIC, data=data)
    Delivery.objects.filter(id=owner_webhook.id).update(next_at=now - timedelta(minutes=7))
    restart_count(cause="stuck"), restart_count(cause="stuck")
    for number, is_ready in enumerate((True, True, False)):
        WarmRuntime.objects.create(id=f"warm-{number}", is_ready=is_ready)
    values = scraped(client)
    assert 5400 <= values["tinkerscript_queue_oldest_seconds",] < 5460
    assert values["tinkerscript_sessions_failed", "disk_full"] == 1
    assert values["tinkerscript_runtime_restarts_total", "stuck"] == 2
    assert values["tinkerscript_warm_runtimes", "ready"] == 2
    assert values["tinkerscript_warm_runtimes", "starting"] == 1
    assert 1200 <= values["tinkerscript_state_age_seconds",] < 1260
    assert 10_800 <= values["tinkerscript_journal_copy_age_seconds",] < 10_860, (
        "it has none: since it is ready"
    )
    assert values["tinkerscript_trained_tokens_per_second",] == 20
    assert values["tinkerscript_phase_seconds", "rollout"] == 3.0
    assert values["tinkerscript_webhook_backlog",] == 1
    assert 420 <= values["tinkerscript_webhook_backlog_seconds",] < 480
    assert 0 < values["tinkerscript_store_free_bytes",] < values["tinkerscript_store_total_bytes",]


@pytest.fixture
def owner_webhook(project: Project) -> Delivery:
    webhook = webhook_create(
        project=project, url="https://example.com/", topics=[WebhookTopic.SESSION_STUCK]
    )
    return Delivery.objects.create(webhook=webhook, topic="session.stuck", body="{}")
