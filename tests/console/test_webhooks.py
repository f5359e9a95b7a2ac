"""Webhooks: signed, tried again, sent for what commits, and never a way into the server's own
network.
"""

import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from aiohttp.abc import AbstractResolver
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.sessions.budgets import sessions_over_budget_stop
from console.sessions.models import Checkpoint, Session
from console.sessions.runtime import leases
from console.sessions.services import session_stop
from console.sessions.states import Actor
from console.sessions.transitions import session_move
from console.webhooks import sending
from console.webhooks.addresses import PublicResolver, is_public
from console.webhooks.models import Delivery, Webhook
from console.webhooks.sending import _claim, deliveries_send
from support import factories
from tinkerscript import webhooks as received
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import Report, ReportEntry
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookTopic

JSON = "application/json"
STEP = {
    "step": 1, "reward_mean": 0.1, "reward_std": 0.1, "loss": 0.1, "grad_norm": 1.0, "learning_rate": 1e-5,
    "kl_engine": 0.0, "entropy": 1.0, "clip_fraction": 0.0, "episodes": 8, "groups": 1, "groups_skipped": 0,
    "tokens_trained": 10, "tokens_computed": 20, "staleness_max": 0, "completion_length_mean": 4.0, "rollout_s": 1.0,
    "train_s": 1.0, "handover_s": 0.1,
}  # fmt: skip


class Receiver:
    """Somebody's server on loopback. ``answers`` are its next statuses, then 200."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((dict(self.headers), body))
                status = receiver.answers.pop(0) if receiver.answers else 200
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{receiver.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver(settings) -> Iterator[Receiver]:
    settings.WEBHOOKS_PRIVATE = True
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def owner(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def subscribe(owner: Client, url: str, *topics: str) -> dict:
    body = {"url": url, **({"topics": list(topics)} if topics else {})}
    answer = owner.post("/v1/webhooks", body, content_type=JSON)
    assert answer.status_code == 201, answer.content
    return answer.json()


def deliveries(owner: Client, webhook: dict) -> list[dict]:
    return owner.get(f"/v1/webhooks/{webhook['id']}/deliveries").json()["items"]


def due_now() -> None:
    Delivery.objects.filter(next_at__isnull=False).update(next_at=timezone.now())


# -- What is sent -----------------------------------------------------------------------------------------------------


def test_a_change_of_state_is_sent_signed_and_listed_as_delivered(project, owner, receiver) -> None:
    webhook = subscribe(owner, f"{receiver.url}/hook", "session.state")
    session = factories.session_make(project)
    session_stop(project=project, session_id=session.id)
    assert deliveries_send() == 1
    ((headers, body),) = receiver.requests
    event = received.verify(body, headers[received.HEADER], webhook["secret"])
    assert (event.topic, event.project_id) == (WebhookTopic.SESSION_STATE, project.id)
    moved = {"from": "queued", "to": "cancelled", "reason": "stopped by the user"}
    assert event.data == {"session_id": session.id, **moved}
    (delivery,) = deliveries(owner, webhook)
    assert (delivery["state"], delivery["attempts"], delivery["status"]) == ("delivered", 1, 200)
    assert deliveries_send() == 0


def test_a_signature_of_other_words_another_secret_or_another_day_is_refused(
    project, owner, receiver
) -> None:
    webhook = subscribe(owner, receiver.url)
    other = subscribe(owner, receiver.url)
    session_stop(project=project, session_id=factories.session_make(project).id)
    deliveries_send()
    headers, body = receiver.requests[0]
    secret = webhook["secret"]
    # the two were sent together: find the one whose secret this is
    for candidate in (webhook, other):
        if headers[received.HEADER] == received.sign(
            body, candidate["secret"], at=int(headers[received.HEADER][2:12])
        ):
            secret = candidate["secret"]
    assert webhook["secret"] != other["secret"]
    received.verify(body, headers[received.HEADER], secret)
    later = int(headers[received.HEADER][2:12]) + 301
    for wrong in (
        (body + b" ", headers[received.HEADER], secret, None),
        (body, headers[received.HEADER], secret + "x", None),
        (body, "t=1,v1=" + "0" * 64, secret, None),
        (body, "", secret, None),
        (body, headers[received.HEADER], secret, later),
    ):
        with pytest.raises(received.BadSignature):
            received.verify(*wrong[:3], now=wrong[3])


def test_the_secret_is_shown_once_and_kept_nowhere(owner) -> None:
    webhook = subscribe(owner, "https://example.com/hook")
    assert webhook["secret"].startswith("whsec_")
    assert "secret" not in owner.get("/v1/webhooks").json()["items"][0]
    assert webhook["secret"] not in str(list(Webhook.objects.values()))


def test_what_is_rolled_back_is_not_sent(project, owner) -> None:
    subscribe(owner, "https://example.com/hook")
    session = factories.session_make(project)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        session_stop(project=project, session_id=session.id)
        raise ZeroDivisionError
    assert Delivery.objects.count() == 0
    assert Session.objects.get().state == "queued"


def test_only_what_was_subscribed_to_is_sent_and_only_of_the_own_project(
    project, owner, bob, receiver
) -> None:
    webhook = subscribe(owner, receiver.url, "checkpoint.failed")
    others = factories.session_make(bob.memberships.get().project)
    session_stop(project=others.project, session_id=others.id)
    session = factories.session_make(project, state=SessionState.READY)
    checkpoint = Checkpoint.objects.create(session=session, kind="model")
    session_move(
        session_id=session.id,
        source=SessionState.READY,
        target=SessionState.FAILED,
        actor=Actor.RECONCILER,
        reason="x",
    )
    assert deliveries_send() == 1
    event = received.WebhookEvent.model_validate_json(receiver.requests[0][1])
    assert (event.topic, event.data["checkpoint_id"]) == (
        WebhookTopic.CHECKPOINT_FAILED,
        checkpoint.id,
    )
    assert len(deliveries(owner, webhook)) == 1


def test_a_deleted_webhook_gets_no_more_events(project, owner, receiver) -> None:
    webhook = subscribe(owner, receiver.url)
    session_stop(project=project, session_id=factories.session_make(project).id)
    assert owner.delete(f"/v1/webhooks/{webhook['id']}").status_code == 204
    assert deliveries_send() == 0
    assert owner.get(f"/v1/webhooks/{webhook['id']}/deliveries").status_code == 404


# -- Again, and again later -------------------------------------------------------------------------------------------


def test_a_delivery_that_another_sender_took_meanwhile_is_not_sent_twice(
    project, owner, receiver
) -> None:
    subscribe(owner, receiver.url)
    for _ in range(2):
        session_stop(project=project, session_id=factories.session_make(project).id)
    slow = _claim(project.id, timezone.now(), 2)  # has read both once it is asked for the first
    first = next(slow)
    (other,) = _claim(project.id, timezone.now(), 2)
    assert other.id != first.id and list(slow) == []
    assert sorted(Delivery.objects.values_list("attempts", flat=True)) == [1, 1]


def test_a_failed_delivery_is_tried_again_later_each_time_and_then_given_up(
    project, owner, receiver
) -> None:
    webhook = subscribe(owner, receiver.url)
    session_stop(project=project, session_id=factories.session_make(project).id)
    receiver.answers = [500] * 20
    waits = []
    while Delivery.objects.filter(state="pending").exists():
        assert deliveries_send() == 1
        assert deliveries_send() == 0  # not before its time
        next_at = Delivery.objects.get().next_at
        waits.append(round((next_at - timezone.now()).total_seconds()) if next_at else None)
        due_now()
    assert waits == [*sending.BACK_OFF_S, None]
    (delivery,) = deliveries(owner, webhook)
    assert (delivery["state"], delivery["attempts"], delivery["error"]) == (
        "failed",
        9,
        "status 500",
    )
    assert len({body for _, body in receiver.requests}) == 1  # the same event, by its id


def test_a_receiver_that_comes_back_gets_it(project, owner, receiver) -> None:
    webhook = subscribe(owner, receiver.url)
    session_stop(project=project, session_id=factories.session_make(project).id)
    receiver.answers = [503]
    deliveries_send()
    due_now()
    deliveries_send()
    (delivery,) = deliveries(owner, webhook)
    assert (delivery["state"], delivery["attempts"], delivery["error"]) == ("delivered", 2, "")


def test_a_sender_that_died_leaves_its_delivery_to_the_next(project, owner, receiver) -> None:
    subscribe(owner, receiver.url)
    session_stop(project=project, session_id=factories.session_make(project).id)
    killed = sending.Sender(None)
    assert killed.claim() == 1  # and then nothing
    killed.close()
    assert deliveries_send() == 0
    assert sending.CLAIM.total_seconds() > sending.TIMEOUT_S
    Delivery.objects.update(next_at=timezone.now() - timedelta(seconds=1))
    assert deliveries_send() == 1
    assert len(receiver.requests) == 1


def test_an_address_where_no_one_listens_costs_only_that_delivery(project, owner, receiver) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        unreachable = subscribe(owner, f"http://127.0.0.1:{closed.getsockname()[1]}")
        subscribe(owner, receiver.url)
        session_stop(project=project, session_id=factories.session_make(project).id)
        assert deliveries_send() == 2
    assert len(receiver.requests) == 1
    assert deliveries(owner, unreachable)[0]["error"].startswith("no connection")


def test_receivers_that_never_respond_delay_their_own_project_alone(
    project, owner, bob, receiver, monkeypatch
) -> None:
    """Twenty tarpits of one project, and then an event of another's."""
    monkeypatch.setattr(sending, "TIMEOUT_S", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as tarpit:  # takes connections and says nothing
        for number in range(20):
            subscribe(owner, f"http://127.0.0.1:{tarpit.getsockname()[1]}/{number}")
        session_stop(project=project, session_id=factories.session_make(project).id)
        stranger = Client()
        stranger.force_login(bob)
        subscribe(stranger, receiver.url)
        others = bob.memberships.get().project
        session_stop(project=others, session_id=factories.session_make(others).id)
        began = time.monotonic()

        def stopped() -> bool:
            if is_over := bool(receiver.requests) or time.monotonic() - began > 50:
                tarpit.close()  # what still waits for it fails at once
            return is_over

        assert deliveries_send(stopped=stopped) == 3, "two of the tarpits', and the stranger's"
    assert receiver.requests, "the stranger's waits for the tarpits"
    assert Delivery.objects.filter(state="pending", attempts=0).count() == 18


# -- Not into our own network -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "https://127.0.0.1/", "https://127.1/", "https://0x7f.1/", "https://2130706433/",
        "https://[::1]/", "https://[::ffff:10.0.0.1]/", "https://10.1.2.3/", "https://192.168.0.1/",
        "https://169.254.169.254/latest/meta-data", "https://[fe80::1]/", "https://[64:ff9b::7f00:1]/",
        "https://0.0.0.0/", "https://[::]/", "https://224.0.0.1/", "https://100.64.0.1/",
        "https://localhost/", "https://localhost.:443/", "https://LOCALHOST./", "https://a.localhost/", "https://db/",
        "https://127.0.0.1./", "https://127.0.0.1../", "https://127.1./", "https://0177.0.0.1/", "https://017700000001/",
        "https://0x7f000001/", "https://0x7F.0.0.0x1/", "https://10.1/", "https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/",
        "https://[fd00::1]/", "https://[2002:7f00:1::]/", "https://[fe80::1%25eth0]/", "https://127%2e0%2e0%2e1/",
        "https://%31%32%37.0.0.1/", "https://256.0.0.1/", "https://1.2.3.4.5/", "https://a..b.com/", "https://.example.com/",
        "https://\uff11\uff12\uff17.0.0.1/", "https://\u2460\u2461\u2466.0.0.1/", "https://localhost\u3002/",
        "https://printer.local/", "https://metadata.google.internal/", "https://router.home.arpa/",
        "https://192.0.0.192/", "https://[3fff::1]/", "https://[5f00::1]/",
        "ftp://example.com/", "file:///etc/passwd", "https://", "https://user:secret@example.com/",
        "https://example.com/#part", "https://exa mple.com/", "https://example.com:0/", "https://example.com:99999/",
        "https://ex\\ample.com", "https://ex\u00e4mple.com/", "example.com", "",
    ],
)  # fmt: skip
def test_an_address_that_may_not_be_called_is_refused_with_the_field(url, owner) -> None:
    answer = owner.post("/v1/webhooks", {"url": url}, content_type=JSON)
    assert answer.status_code == 400, answer.content
    assert answer.json()["error"]["details"]["fields"][0]["field"] == "url"
    assert Webhook.objects.count() == 0


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
def test_public_addresses_are_public(address) -> None:
    assert is_public(address)


class Names(AbstractResolver):
    """A name service that says what a test tells it to."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list:
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": family,
                "proto": 0,
                "flags": 0,
            }
            for address in self.addresses
        ]

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::ffff:127.0.0.1"]]
)
def test_a_name_that_leads_into_our_network_is_not_followed(
    addresses, project, owner, receiver, settings
) -> None:
    settings.WEBHOOKS_PRIVATE = False
    port = receiver.server.server_port
    webhook = subscribe(owner, f"https://innocent.example:{port}/")
    session_stop(project=project, session_id=factories.session_make(project).id)
    assert deliveries_send(resolver=PublicResolver(Names(*addresses))) == 1
    assert receiver.requests == []
    assert (
        deliveries(owner, webhook)[0]["error"] == "its name leads to an address that is not public"
    )


def test_a_redirect_is_not_followed(project, owner, receiver) -> None:
    webhook = subscribe(owner, receiver.url)
    session_stop(project=project, session_id=factories.session_make(project).id)
    receiver.answers = [307]
    deliveries_send()
    assert len(receiver.requests) == 1
    assert deliveries(owner, webhook)[0]["error"] == "status 307"


def test_a_webhook_of_a_time_when_private_ones_were_allowed_is_not_called(
    project, owner, receiver, settings
) -> None:
    webhook = subscribe(owner, receiver.url)
    session_stop(project=project, session_id=factories.session_make(project).id)
    settings.WEBHOOKS_PRIVATE = False
    deliveries_send()
    assert receiver.requests == []
    assert deliveries(owner, webhook)[0]["error"] == "it must begin with https://"


def test_owners_manage_webhooks_and_members_viewers_outsiders_do_not(
    project, alice, member, bob
) -> None:
    viewer = factories.member_make(project, "vera", "viewer")
    for user, expected in [(alice, 200), (member, 403), (viewer, 403), (bob, 404)]:
        client = Client(headers={"X-Project-Id": project.id})
        client.force_login(user)
        assert client.get("/v1/webhooks").status_code == expected


# -- What there is to be told ------------------------------------------------------------------------------------------


def told(topic: WebhookTopic) -> list[dict]:
    rows = Delivery.objects.filter(topic=topic).order_by("created_at")
    return [received.WebhookEvent.model_validate_json(row.body).data for row in rows]


@pytest.fixture
def subscribed(owner) -> None:
    subscribe(owner, "https://example.com/hook")


def test_a_session_that_fails_says_its_cause(project, subscribed) -> None:
    session = factories.session_make(project, state=SessionState.READY)
    failure = {"code": "out_of_memory", "cause": "the trainer was killed", "hint": ""}
    session_move(
        session_id=session.id,
        source=SessionState.READY,
        target=SessionState.FAILED,
        actor=Actor.RECONCILER,
        reason="x",
        failure=failure,
    )
    expected = {
        "session_id": session.id,
        "code": "out_of_memory",
        "cause": "the trainer was killed",
    }
    assert told(WebhookTopic.SESSION_FAILED) == [expected]


def test_a_budget_that_is_nearly_used_is_told_once(project, subscribed) -> None:
    session = factories.session_make(
        project, state=SessionState.READY, budget={"steps": 10}, policy_version_high=8
    )
    sessions_over_budget_stop()
    assert told(WebhookTopic.BUDGET_NEAR) == []
    Session.objects.filter(id=session.id).update(policy_version_high=9)
    for _ in range(2):
        sessions_over_budget_stop()
    (data,) = told(WebhookTopic.BUDGET_NEAR)
    assert data == {"session_id": session.id, "limit": "steps", "allowed": 10, "used": 9}


def test_the_limits_of_many_sessions_that_stay_near_are_read_at_once(project) -> None:
    def queries(count: int) -> int:
        for _ in range(count):
            factories.session_make(
                project, state=SessionState.READY, budget={"steps": 10}, policy_version_high=9
            )
        sessions_over_budget_stop()
        with CaptureQueriesContext(connection) as captured:
            sessions_over_budget_stop()
        return len(captured)

    assert queries(1) == queries(9)


def test_drift_is_told_where_it_begins_not_of_a_single_step_and_again_when_it_was_over(
    project, subscribed
) -> None:
    _session, token = factories.runtime_make(project)
    # one step is noise: the mean of five passes 0.1 at step 14
    gaps = [0.01] * 5 + [0.4] + [0.01] * 5 + [0.2] * 6
    # over at step 20 or so; and after 50 more steps it passes 0.1 at step 69
    gaps += [0.001] * 50 + [0.3] * 6
    entries = [
        ReportEntry(
            key=f"step-{step}", kind=EventKind.METRIC, data=STEP | {"step": step, "kl_engine": gap}
        )
        for step, gap in enumerate(gaps, start=1)
    ]
    for some in (entries[:8], entries[6:8], entries[8:]):  # a repeated report tells nothing anew
        leases.runtime_report(session=leases.lease_check(token=token), body=Report(entries=some))
    found = [
        (data["step"], round(data["kl_engine"], 3), data["bound"])
        for data in told(WebhookTopic.TRAINING_DRIFT)
    ]
    assert found == [(14, 0.124, 0.1), (69, 0.121, 0.1)]
