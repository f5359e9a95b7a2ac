"""Alerts: found in what a run measures, raised once until they are over, told and counted as
unread.
"""

from datetime import timedelta
from random import Random

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.live.models import EventRecord
from console.live.selectors import steps_new
from console.scheduling.session_notes import stuck_announce
from console.sessions.alerts.rules import alerts_of
from console.sessions.alerts.services import steps_watch
from console.sessions.budgets import sessions_over_budget_stop
from console.sessions.models import Alert, RuntimeSpan, Session
from console.sessions.raised_alerts import alert_raise, alerts_close
from console.sessions.runtime import leases
from console.sessions.states import Actor
from console.sessions.transitions import session_move
from console.users.keys import key_create
from console.users.models import Project
from console.webhooks.models import Delivery
from console.webhooks.services import webhook_create
from support import factories
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.runtime import Report, ReportEntry, RuntimeStage, RuntimeState
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookTopic

CALM = {
    "reward_mean": 0.5,
    "entropy": 1.0,
    "completion_length_mean": 100.0,
    "kl_before": 0.01,
    "kl_engine": 0.001,
}
MEASURED = CALM | {  # a whole step
    "reward_std": 0.1, "loss": 0.1, "grad_norm": 1.0, "learning_rate": 1e-5, "clip_fraction": 0.0, "episodes": 8,
    "groups": 2, "groups_skipped": 0, "tokens_trained": 9, "tokens_computed": 9, "staleness_max": 0, "rollout_s": 1.0,
    "train_s": 1.0, "handover_s": 1.0,
}  # fmt: skip


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
        (
            steps((20, {"reward_mean": -1.0}), (5, {"reward_mean": -1.6})),
            {AlertRule.REWARD_COLLAPSE},
        ),
        (steps((20, {"reward_mean": 0.0})), set()),
        (steps((5, {"reward_mean": 0.1}), (20, {"reward_mean": 0.9})), set()),
        (steps((20, {}), (5, {"entropy": 0.1})), {AlertRule.ENTROPY_COLLAPSE}),
        (steps((20, {}), (5, {"completion_length_mean": 210.0})), {AlertRule.LENGTH_BLOWUP}),
        (steps((4, {}), (1, {"kl_before": 0.2})), set()),  # one step far
        (steps((4, {}), (1, {"kl_before": 5.0})), {AlertRule.KL}),  # and one too far
        (steps((3, {}), (5, {"kl_before": 0.2})), {AlertRule.KL}),
        (steps((4, {"kl_before": 0.2})), set()),  # too few
        (steps((3, {}), (5, {"kl_before": None, "kl_engine": 0.2})), {AlertRule.ENGINE_GAP}),
        # of single tokens, left out
        (steps((3, {}), (5, {"kl_engine": 9.0, "engine_gap_p90": 0.02})), set()),
        (steps((3, {}), (5, {"kl_engine": 0.2, "engine_gap_p90": 0.4})), {AlertRule.ENGINE_GAP}),
        # long ago: the new normal
        (steps((20, {"reward_mean": 0.8}), (60, {"reward_mean": 0.3})), set()),
        # Around zero: small beside the spread within a batch, and a fall all the same.
        (
            steps(
                (20, {"reward_mean": 0.02, "reward_std": 1.0}),
                (5, {"reward_mean": -0.01, "reward_std": 1.0}),
            ),
            set(),
        ),
        (
            steps(
                (20, {"reward_mean": 0.0, "reward_std": 0.0}),
                (5, {"reward_mean": -0.0001, "reward_std": 0.01}),
            ),
            set(),
        ),
        (
            steps((20, {"reward_mean": 0.0}), (5, {"reward_mean": -1.0})),
            {AlertRule.REWARD_COLLAPSE},
        ),
    ],
)
def test_a_rule_holds_where_it_should_and_nowhere_else(run, rules) -> None:
    assert set(alerts_of(run)) == rules


def test_the_noise_of_a_run_around_zero_is_no_collapse() -> None:
    chance = Random(7)
    run = [CALM | {"reward_mean": chance.gauss(0.0, 0.1), "reward_std": 0.0} for _ in range(500)]
    assert not any(alerts_of(run[:end]) for end in range(len(run)))
    fallen = [*run[:20], *[CALM | {"reward_mean": chance.gauss(-1.0, 0.1)} for _ in range(5)]]
    assert set(alerts_of(fallen)) == {AlertRule.REWARD_COLLAPSE}


def report(token: str, first: int, *gaps: float) -> None:
    """Report steps from ``first`` on with these gaps between engine and trainer, in one request."""
    entries = [
        ReportEntry(
            key=f"step {step}",
            kind=EventKind.METRIC,
            data=MEASURED | {"step": step, "kl_engine": gap},
        )
        for step, gap in enumerate(gaps, start=first)
    ]
    leases.runtime_report(session=leases.lease_check(token=token), body=Report(entries=entries))


@pytest.fixture
def subscribed(project: Project) -> Project:
    webhook_create(
        project=project, url="https://example.com/hook", topics=[WebhookTopic.ALERT_RAISED]
    )
    return project


def test_an_alert_is_raised_once_until_it_is_over_and_then_again_after_a_while(subscribed) -> None:
    session, token = factories.runtime_make(subscribed)
    for step, gap in enumerate([0.09, 0.11] * 10, start=1):
        report(token, step, gap)
    (first,) = session.alerts.all()
    assert (first.rule, first.step, first.over_at) == ("engine_gap", 6, None), (
        "it wavers around the bound"
    )
    assert "0.102" in first.text and "above the bound 0.1" in first.text
    report(token, 21, *[0.001] * 5)
    first.refresh_from_db()
    assert first.over_at is not None
    report(token, 26, *[0.4] * 40)
    _first, second = session.alerts.order_by("id")
    assert (second.step, second.over_at) == (56, None)
    told = EventRecord.objects.filter(session_id=session.id, data__name="alert")
    assert told.count() == Delivery.objects.count() == 2


def test_a_step_that_a_gap_refused_raises_the_alert_of_the_gap_until_a_step_is_done(
    project,
) -> None:
    topics = [WebhookTopic.ALERT_RAISED, WebhookTopic.TRAINING_DRIFT]
    webhook_create(project=project, url="https://example.com/hook", topics=topics)
    session, token = factories.runtime_make(project)
    refused = {
        "name": "step_refused",
        "step": 1,
        "code": "engine_trainer_mismatch",
        "kl_engine": 5.0,
    }
    entries = [
        ReportEntry(
            key="refused a",
            kind=EventKind.EVENT,
            data={"name": "step_refused", "step": 1, "code": "nan"},
        ),
        ReportEntry(key="refused b", kind=EventKind.EVENT, data=refused),
        ReportEntry(key="refused c", kind=EventKind.EVENT, data=refused),
    ]
    for _ in range(2):  # a report may come twice
        leases.runtime_report(session=leases.lease_check(token=token), body=Report(entries=entries))
    (alert,) = session.alerts.all()
    assert (alert.rule, alert.step, alert.over_at) == (
        "engine_gap",
        1,
        None,
    ) and "KL of 5 " in alert.text
    assert Delivery.objects.count() == 2
    report(token, 1, 0.001)
    alert.refresh_from_db()
    assert alert.over_at is not None


def test_each_step_of_a_report_counts_once(project) -> None:
    session, token = factories.runtime_make(project)
    report(token, 1, *[0.4] * 5, *[0.001] * 10)
    (alert,) = session.alerts.all()
    assert alert.step == 5 and alert.over_at is not None, "what came and went within one report"
    report(token, 100, *[0.4] * 5)
    report(token, 1, *[0.4] * 5, *[0.001] * 10)
    found = [(alert.step, alert.over_at is None) for alert in session.alerts.order_by("id")]
    assert found == [(5, False), (101, True)], "steps that are reported again change nothing"


def test_what_has_no_new_step_costs_next_to_nothing(project, django_assert_num_queries) -> None:
    session, token = factories.runtime_make(project)
    with django_assert_num_queries(0):
        steps_new(
            session_id=session.id,
            entries=[ReportEntry(key="l", kind=EventKind.LOG, data={"line": "x"})],
        )
        steps_watch(session=session, new=0)
    report(token, 1, 0.001)
    with django_assert_num_queries(3):
        steps_watch(session=session, new=1)


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
    assert subjects_standing(session) == ["steps 100%"], (
        "a share is over once a higher one is passed"
    )


def subjects_standing(session: Session) -> list[str]:
    return list(
        session.alerts.filter(over_at=None).order_by("id").values_list("subject", flat=True)
    )


def test_a_keys_limit_is_told_once_for_all_of_its_sessions(project, alice) -> None:
    key, _secret = key_create(
        project=project, user=alice, name="sweep", scopes=factories.EVERY_SCOPE, spend_cap_s=100
    )
    sessions = [
        factories.session_make(project, key=key, state=SessionState.READY) for _ in range(3)
    ]
    now = timezone.now()
    span = RuntimeSpan.objects.create(
        project=project,
        session_id=sessions[2].id,
        key_id=key.id,
        gpus=1,
        started_at=now,
        seen_at=now,
    )
    for used_s in (55, 60, 85, 85):
        RuntimeSpan.objects.filter(id=span.id).update(seen_at=now + timedelta(seconds=used_s))
        with CaptureQueriesContext(connection) as queries:
            sessions_over_budget_stop()
        Session.objects.filter(id=sessions[0].id).update(state=SessionState.STOPPED)
    assert list(Alert.objects.order_by("id").values_list("subject", flat=True)) == [
        "spend_cap_s 50%",
        "spend_cap_s 80%",
    ]
    assert list(Alert.objects.filter(over_at=None).values_list("subject", flat=True)) == [
        "spend_cap_s 80%"
    ]
    reads = [query["sql"] for query in queries if '"console_alert"' in query["sql"]]
    assert len(reads) == 1, "what is told already is read once for all sessions"


def test_a_run_is_stuck_until_its_next_step(project) -> None:
    session, token = factories.runtime_make(project)

    def beat(version: int) -> None:
        body = RuntimeState(state=RuntimeStage.READY, progress=version, policy_version=version)
        leases.runtime_heartbeat(session=leases.lease_check(token=token), body=body)

    beat(3)
    for session.restarts in (0, 1):
        stuck_announce(session, "no progress")
    assert subjects_standing(session) == ["restart 1"], (
        "the later one takes the place of the earlier"
    )
    beat(3)
    assert subjects_standing(session) == ["restart 1"], (
        "a step that was there before is no progress"
    )
    beat(4)
    assert subjects_standing(session) == [] and session.alerts.count() == 2


def test_with_the_end_of_a_run_its_alerts_are_over_and_none_is_raised_after_it(project) -> None:
    session = factories.session_make(project, state=SessionState.READY)
    for rule in (AlertRule.BUDGET, AlertRule.KL):
        alert_raise(session=session, rule=rule, text="before the end")
    end = {"source": SessionState.READY, "target": SessionState.FAILED, "actor": Actor.RECONCILER}
    session_move(session_id=session.id, **end)
    alert_raise(session=session, rule=AlertRule.STUCK, text="after it")
    assert [alert.rule for alert in session.alerts.filter(over_at=None)] == ["failed"], (
        "which stands"
    )
    assert session.alerts.count() == 3


def test_each_person_reads_alerts_for_themselves_and_hostile_text_stays_text(
    project, alice, member
) -> None:
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
        assert (
            mine.post(
                "/v1/alerts/read", {"upto": upto}, content_type="application/json"
            ).status_code
            == 204
        )
    assert [item["is_read"] for item in mine.get("/v1/alerts").json()["items"]] == [False, True]
    mine.post("/v1/alerts/read", {"upto": 2**40}, content_type="application/json")
    assert (
        mine.get("/v1/alerts").json()["unread"] == 0
        and other.get("/v1/alerts").json()["unread"] == 2
    )
    alert_raise(session=session, rule=AlertRule.STUCK, subject="3", text="after it")
    assert mine.get("/v1/alerts").json()["unread"] == 1, "what comes later is not read before"
    page = mine.get("/v1/alerts?limit=2").json()
    rest = mine.get(f"/v1/alerts?limit=2&cursor={page['next_cursor']}").json()
    assert len(page["items"]) + len(rest["items"]) == 3 and rest["next_cursor"] is None
    assert len(mine.get(f"/v1/sessions/{session.id}/alerts").json()["items"]) == 3
    alerts_close(session.alerts.exclude(subject="1"))
    for path in ("/v1/alerts", f"/v1/sessions/{session.id}/alerts"):
        (item,) = mine.get(f"{path}?standing=true&limit=1").json()["items"]
        assert item["id"] == older["id"], "those that are over take no place of the page"
