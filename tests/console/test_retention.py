"""What has expired goes, and nothing else does."""

from datetime import timedelta

from django.contrib.sessions.models import Session as BrowserSession
from django.utils import timezone

from console.live.models import EventRecord, ResourceChunk
from console.live.services import event_record
from console.scheduling.retention import expired_remove
from console.sessions.models import Session
from console.tinker.models import TinkerRuntime, TinkerSession
from console.users.models import IdempotencyRecord
from console.webhooks.models import Delivery
from console.webhooks.services import webhook_create
from support import factories
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookTopic


def ago(**time: int):
    return timezone.now() - timedelta(**time)


def test_old_deliveries_responses_and_sign_ins_go(project) -> None:
    webhook = webhook_create(
        project=project, url="https://example.com/hook", topics=list(WebhookTopic)
    )
    kept = []
    for age_days, next_at, stays in (
        (31, None, False),
        (29, None, True),
        (31, timezone.now(), True),
    ):
        row = Delivery.objects.create(
            webhook=webhook, topic="session.state", body="{}", next_at=next_at
        )
        Delivery.objects.filter(id=row.id).update(created_at=ago(days=age_days))
        kept += [row.id] if stays else []
    for key, hours in (("old", 25), ("new", 23)):
        IdempotencyRecord.objects.create(
            project=project, key=key, request="POST /", body_sha256="0" * 64
        )
        IdempotencyRecord.objects.filter(key=key).update(created_at=ago(hours=hours))
    for key, days in (("gone", 1), ("here", -1)):
        BrowserSession.objects.create(session_key=key, session_data="", expire_date=ago(days=days))
    expired_remove()
    assert set(Delivery.objects.values_list("id", flat=True)) == set(kept)
    assert [row.key for row in IdempotencyRecord.objects.all()] == ["new"]
    assert [row.session_key for row in BrowserSession.objects.all()] == ["here"]


def test_tinker_clients_that_used_no_model_go_and_others_stay(project, alice) -> None:
    finished, kept = {"type": "success", "detail": "", "at": ago(days=40).isoformat()}, []
    session = factories.session_make(project)
    for days, end, runs in (
        (40, finished, None),
        (20, finished, None),
        (40, None, None),
        (40, finished, session),
    ):
        row = TinkerSession.objects.create(project=project, finished=end)
        TinkerSession.objects.filter(id=row.id).update(heartbeat_at=ago(days=days))
        if runs is not None:
            TinkerRuntime.objects.create(tinker_session=row, base_model="m", session=runs)
        kept.append(row.id)
    expired_remove()
    assert set(TinkerSession.objects.values_list("id", flat=True)) == set(kept[1:])


def test_the_record_of_a_session_that_ended_long_ago_goes_but_for_what_it_used(
    project, settings
) -> None:
    old, recent, running = (factories.session_make(project) for _ in range(3))
    for session, state, days in (
        (old, SessionState.STOPPED, 401),
        (recent, SessionState.STOPPED, 399),
        (running, SessionState.READY, 500),
    ):
        Session.objects.filter(id=session.id).update(state=state, state_since=ago(days=days))
        event_record(
            session_id=session.id, kind=EventKind.METRIC, data={"step": 1, "tokens_trained": 7}
        )
        event_record(
            session_id=session.id, kind=EventKind.EVALUATION, data={"step": 1, "reward_mean": 0.5}
        )
        event_record(session_id=session.id, kind=EventKind.LOG, data={"line": "hello"})
        ResourceChunk.objects.create(session_id=session.id, columns={"at": []}, latest={})

    def kinds(session: Session) -> list[str]:
        return list(
            EventRecord.objects.filter(session_id=session.id)
            .order_by("id")
            .values_list("kind", flat=True)
        )

    before = kinds(recent)
    settings.RECORD_DAYS = 0
    expired_remove()
    assert kinds(old) == before
    settings.RECORD_DAYS = 400
    expired_remove()
    assert (kinds(old), kinds(recent), kinds(running)) == (["metric", "evaluation"], before, before)
    assert set(ResourceChunk.objects.values_list("session_id", flat=True)) == {
        recent.id,
        running.id,
    }
