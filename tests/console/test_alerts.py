"""Alerts: found in what a run measures, raised once until they are over, told and counted as unread."""

from itertools import count

import pytest
from django.test import Client

from console.live.models import EventRecord
from console.live.services import events_record
from console.sessions.alerts import mail as alert_mail
from console.sessions.alerts.mail import alerts_mail
from console.sessions.alerts.rules import alerts_of
from console.sessions.alerts.services import alert_raise, steps_watch
from console.sessions.budgets import sessions_over_budget_stop
from console.sessions.models import Alert, Session
from console.users.models import Membership, Project
from console.webhooks.models import Delivery
from console.webhooks.services import webhook_create
from support import factories
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.runtime import ReportEntry
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookTopic

CALM = {"reward_mean": 0.5, "entropy": 1.0, "completion_length_mean": 100.0, "kl_before": 0.01, "kl_engine": 0.001}
numbers = count(1)


def steps(*parts: tuple[int, dict[str, float | None]]) -> list[dict[str, float | None]]:
    return [CALM | other for times, other in parts for _ in range(times)]


@pytest.mark.parametrize(
    ("run", "rules"),
    [
        (steps((40, {})), set()),
        ([], set()),
        (steps((9, {"reward_mean": 1.0}), (1, {"reward_mean": 0.0})), set()),  # one bad batch
        (steps((20, {"reward_mean": 0.8}), (5, {"reward_mean": 0.3})), {AlertRule.REWARD_COLLAPSE}),
        (steps((20, {"reward_mean": -1.0}), (5, {"reward_mean": -1.4})), set()),
        (steps((20, {"reward_mean": -1.0}), (5, {"reward_mean": -1.6})), {AlertRule.REWARD_COLLAPSE}),
        (steps((20, {"reward_mean": 0.0})), set()),
        (steps((5, {"reward_mean": 0.1}), (20, {"reward_mean": 0.9})), set()),
        (steps((20, {}), (5, {"entropy": 0.1})), {AlertRule.ENTROPY_COLLAPSE}),
        (steps((20, {}), (5, {"completion_length_mean": 210.0})), {AlertRule.LENGTH_BLOWUP}),
        (steps((3, {}), (1, {"kl_before": 0.2})), {AlertRule.KL}),
        (steps((3, {}), (1, {"kl_before": None, "kl_engine": 0.2})), {AlertRule.ENGINE_GAP}),
        (steps((20, {"reward_mean": 0.8}), (60, {"reward_mean": 0.3})), set()),  # long ago: the new normal
    ],
)
def test_a_rule_holds_where_it_should_and_nowhere_else(run, rules) -> None:
    assert set(alerts_of(run)) == rules


def report(session: Session, **measured: float) -> None:
    step = next(numbers)
    data = {**CALM, **measured, "step": step}
    entries = [ReportEntry(key=f"step {step}", kind=EventKind.METRIC, data=data)]
    events_record(session_id=session.id, entries=entries)
    steps_watch(session=session, entries=entries)


@pytest.fixture
def subscribed(project: Project) -> Project:
    webhook_create(project=project, url="https://example.com/hook", topics=[WebhookTopic.ALERT_RAISED])
    return project


def test_an_alert_is_raised_once_until_it_is_over_and_then_again(subscribed) -> None:
    session = factories.session_make(subscribed)
    for gap in (0.2, 0.3, 0.001, 0.4):
        report(session, kl_engine=gap)
    first, second = Alert.objects.order_by("id")
    assert (first.rule, first.over_at is None, second.over_at is None) == ("engine_gap", False, True)
    assert "0.2" in first.text and first.step is not None
    told = EventRecord.objects.filter(session_id=session.id, data__name="alert")
    assert told.count() == Delivery.objects.count() == 2


def test_a_report_without_a_step_costs_nothing(project, django_assert_num_queries) -> None:
    session = factories.session_make(project)
    with django_assert_num_queries(0):
        steps_watch(session=session, entries=[ReportEntry(key="l", kind=EventKind.LOG, data={"line": "x"})])
    report(session)
    entries = [ReportEntry(key="again", kind=EventKind.METRIC, data={**CALM, "step": 9})]
    with django_assert_num_queries(2):
        steps_watch(session=session, entries=entries)


def test_a_budget_is_told_at_each_share_once(project) -> None:
    session = factories.session_make(project, budget={"steps": 10}, state=SessionState.READY)
    for done in (4, 5, 6, 9, 9, 10, 10):
        Session.objects.filter(id=session.id).update(policy_version_high=done)
        sessions_over_budget_stop()
    assert list(Alert.objects.order_by("id").values_list("subject", flat=True)) == [
        "steps 50%",
        "steps 80%",
        "steps 100%",
    ]


def test_each_person_reads_alerts_for_themselves_and_hostile_text_stays_text(project, alice, member) -> None:
    session = factories.session_make(project, name="<b>run</b>")
    for subject in ("1", "2"):
        alert_raise(session=session, rule=AlertRule.STUCK, subject=subject, text="<script>" * 80)
    people = []
    for user in (alice, member):
        client = Client(headers={"X-Project-Id": project.id})
        client.force_login(user)
        people.append(client)
    mine, other = people
    listed = mine.get("/v1/alerts").json()
    newest, older = listed["items"]
    assert (listed["unread"], newest["session_name"], newest["is_read"]) == (2, "<b>run</b>", False)
    assert len(newest["text"]) == 400
    for upto in (older["id"], older["id"], 0):
        assert mine.post("/v1/alerts/read", {"upto": upto}, content_type="application/json").status_code == 204
    assert [item["is_read"] for item in mine.get("/v1/alerts").json()["items"]] == [False, True]
    mine.post("/v1/alerts/read", {"upto": 2**40}, content_type="application/json")
    assert mine.get("/v1/alerts").json()["unread"] == 0 and other.get("/v1/alerts").json()["unread"] == 2
    alert_raise(session=session, rule=AlertRule.STUCK, subject="3", text="after it")
    assert mine.get("/v1/alerts").json()["unread"] == 1, "what comes later is not read before"
    page = mine.get("/v1/alerts?limit=2").json()
    rest = mine.get(f"/v1/alerts?limit=2&cursor={page['next_cursor']}").json()
    assert len(page["items"]) + len(rest["items"]) == 3 and rest["next_cursor"] is None
    assert len(mine.get(f"/v1/sessions/{session.id}/alerts").json()["items"]) == 3


def test_who_started_a_run_has_one_mail_of_what_is_new_and_few_a_day(project, alice, mailoutbox, monkeypatch) -> None:
    monkeypatch.setattr(alert_mail, "MAX_A_DAY", 2)
    session = factories.session_make(project, person=alice, name="Subject: spam\r\n")
    for subject in ("1", "2"):
        alert_raise(session=session, rule=AlertRule.STUCK, subject=subject, text=f"stuck {subject}")
    alert_raise(session=factories.session_make(project), rule=AlertRule.STUCK, text="of nobody")
    alerts_mail()
    alerts_mail()
    (mail,) = mailoutbox
    assert mail.to == [alice.email] and "spam" not in mail.subject + mail.body
    assert "- stuck 1\n- stuck 2\n" in mail.body and f"/sessions/{session.id}\n" in mail.body
    for subject in ("3", "4"):
        alert_raise(session=session, rule=AlertRule.STUCK, subject=subject, text="again")
        alerts_mail()
    assert len(mailoutbox) == 2
    assert not Alert.objects.filter(mailed_at=None).exists()


def test_who_left_the_project_has_no_mail(project, alice, mailoutbox) -> None:
    session = factories.session_make(project, person=alice)
    Membership.objects.filter(user=alice).delete()
    alert_raise(session=session, rule=AlertRule.STUCK, text="stuck")
    alerts_mail()
    assert mailoutbox == []
