"""What the reconciler asks of the database: its work is statements, whatever the machine and its
load.
"""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.live.models import EventRecord
from console.live.services import event_record
from console.scheduling import retention
from console.sessions.budgets import sessions_over_budget_stop
from console.users.models import IdempotencyRecord
from console.webhooks import sending
from console.webhooks.models import Delivery
from console.webhooks.sending import MAX_PER_PROJECT, deliveries_send
from console.webhooks.services import event_announce, webhook_create
from support import factories
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.webhooks import WebhookTopic

DELIVERIES = 10


def statements(captured: CaptureQueriesContext) -> list[str]:
    return [query["sql"] for query in captured.captured_queries]


def announce(project) -> None:
    event_announce(
        project_id=project.id, topic=WebhookTopic.SESSION_STATE, data={"session_id": "ses_1"}
    )


@pytest.fixture
def hook(project, settings):
    settings.WEBHOOKS_PRIVATE = True
    return webhook_create(
        project=project, url="http://127.0.0.1:9/hook", topics=[WebhookTopic.SESSION_STATE]
    )


@pytest.mark.django_db(transaction=True)
def test_deliveries_of_one_project_are_taken_as_many_as_may_be_on_their_way_at_once(
    project, hook, monkeypatch
):
    async def taken(_client, _delivery):
        return 200, ""

    monkeypatch.setattr(sending, "_post", taken)
    for _ in range(DELIVERIES):
        announce(project)
    with CaptureQueriesContext(connection) as captured:
        assert deliveries_send() == DELIVERIES
    assert Delivery.objects.filter(state="delivered").count() == DELIVERIES
    turns = DELIVERIES // MAX_PER_PROJECT
    # In each turn: whose are due, which these are. Of each: that it is taken, what became of it.
    # And one last look.
    assert len(captured) == 2 * turns + 2 * DELIVERIES + 1, statements(captured)


@pytest.mark.django_db
def test_what_is_told_within_a_move_makes_no_point_to_go_back_to(project, hook):
    session = factories.session_make(project)
    with CaptureQueriesContext(connection) as captured, transaction.atomic():
        event_record(session_id=session.id, kind=EventKind.EVENT, data={"name": "x"})
        announce(project)
    assert sum("SAVEPOINT" in sql for sql in statements(captured)) == 2, (
        "that of the transaction here alone"
    )
    assert (
        Delivery.objects.count() == 1
        and EventRecord.objects.filter(kind=EventKind.EVENT).count() == 1
    )


@pytest.mark.django_db
def test_a_second_without_limits_is_one_look(project):
    factories.session_make(project, state="ready")
    with CaptureQueriesContext(connection) as captured:
        sessions_over_budget_stop()
    assert len(captured) == 1, statements(captured)


@pytest.mark.django_db
def test_a_round_removes_more_than_one_statement_does(project, hook, monkeypatch):
    """More comes in a minute than one statement may take: they would stay for ever."""
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    for number in range(8):
        announce(project)
        IdempotencyRecord.objects.create(
            project=project, key=f"{number}", request="r", body_sha256="0"
        )
    fresh = Delivery.objects.latest("id")
    Delivery.objects.exclude(id=fresh.id).update(
        next_at=None, created_at=timezone.now() - timedelta(days=31)
    )
    IdempotencyRecord.objects.update(created_at=timezone.now() - timedelta(days=2))
    retention.expired_remove()
    assert list(Delivery.objects.all()) == [fresh]
    assert not IdempotencyRecord.objects.exists()


@pytest.mark.django_db
def test_a_round_ends_though_more_is_to_go(project, hook, monkeypatch):
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    monkeypatch.setattr(retention, "EACH_S", 0.0)
    for _ in range(8):
        announce(project)
    Delivery.objects.update(next_at=None, created_at=timezone.now() - timedelta(days=31))
    retention.expired_remove()
    assert Delivery.objects.count() == 5
