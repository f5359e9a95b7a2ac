"""What goes wrong with a run is counted for ever and told to people."""

import itertools
import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.live.models import ResourceChunk
from console.live.services import event_record
from console.scheduling import recovery
from console.scheduling.logs import log_keep
from console.scheduling.recovery import last_fault, repeats, requeue, runtime_lost
from console.sessions.alerts.mail import alerts_mail
from console.sessions.alerts.rules import alerts_of
from console.sessions.checkpoints.verification import checkpoint_give_up
from console.sessions.models import Alert, Checkpoint, Session
from console.sessions.raised_alerts import alert_raise
from console.sessions.runtime import leases
from console.sessions.states import Actor
from console.sessions.transitions import checkpoints_fail, session_move
from support import factories
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.reading.resources import ResourceSample
from tinkerscript.wire.runtime import Report, ReportEntry, RuntimeStage, RuntimeState
from tinkerscript.wire.sessions import SessionState

FAULT = {
    "name": "runtime_fault",
    "code": "trainer_failed",
    "cause": "SafetensorError: cut off.",
    "hint": "Copy it again.",
}
SAMPLE = {
    "cpu_cores": 1,
    "cores": 2,
    "memory_bytes": 1,
    "memory_used_bytes": 1,
    "memory_total_bytes": 2,
}


def fail(session: Session, failure: dict[str, Any]) -> None:
    """Move it to failed, as the reconciler does."""
    moved = {
        "source": SessionState(session.state),
        "target": SessionState.FAILED,
        "actor": Actor.RECONCILER,
    }
    session_move(session_id=session.id, failure=failure, **moved)


def tell(token: str, key: str, **data: object) -> None:
    """Report one event of a runtime."""
    entry = ReportEntry(key=key, kind=EventKind.EVENT, data=data)
    leases.runtime_report(session=leases.lease_check(token=token), body=Report(entries=[entry]))


def test_a_failed_run_is_an_alert_that_stands_with_what_to_do_and_is_mailed(
    project, alice, mailoutbox
) -> None:
    session = factories.session_make(project, person=alice, state=SessionState.READY)
    fail(session, {"code": "x", "cause": "The model's file is cut off.", "hint": "Copy it again."})
    (alert,) = session.alerts.all()
    assert (alert.rule, alert.over_at) == (AlertRule.FAILED, None)
    alerts_mail()
    (mail,) = mailoutbox
    assert "- The model's file is cut off.\n  Copy it again.\n" in mail.body and mail.to == [
        alice.email
    ]


def test_alerts_of_a_run_of_nobody_reach_the_owners(project, alice, member, mailoutbox) -> None:
    fail(
        factories.session_make(project, state=SessionState.READY),
        {"code": "x", "cause": "gone", "hint": ""},
    )
    alerts_mail()
    assert [mail.to for mail in mailoutbox] == [[alice.email]]


def test_a_lost_runtimes_own_words_are_the_cause_and_its_log_stands_beside_them(project) -> None:
    session = factories.session_make(project)
    for name in ("an earlier one", "the last one"):
        event_record(session_id=session.id, kind=EventKind.STATE, data={"to": "provisioning"})
        if name == "the last one":
            event_record(session_id=session.id, kind=EventKind.EVENT, data=FAULT)
    lines = ["Traceback", "SafetensorError: cut off.", ""]
    failure = runtime_lost(
        cause="it ended with code 1", fault=last_fault(session), restarts=5, lines=lines
    )
    assert (
        failure["cause"] == "SafetensorError: cut off, after 5 restarts without a completed step."
    )
    assert failure["hint"].startswith("Copy it again. ") and failure["log"] == lines
    event_record(session_id=session.id, kind=EventKind.STATE, data={"to": "provisioning"})
    assert last_fault(session) == {}, "that was another runtime's"
    unknown = runtime_lost(cause="it ended with code 1", fault={}, restarts=5, lines=lines)
    assert unknown["cause"].startswith("SafetensorError: cut off (it ended with code 1), after 5 ")


def test_a_cause_that_ends_three_runtimes_before_they_are_ready_ends_the_fourth_too(
    project,
) -> None:
    session = factories.session_make(project)

    def end(**fault: str) -> bool:
        event_record(session_id=session.id, kind=EventKind.EVENT, data=FAULT | fault)
        return repeats(session)

    assert [end(), end(), end(cause="another"), end(), end(), end()] == [False] * 5 + [True]
    event_record(session_id=session.id, kind=EventKind.STATE, data={"to": "ready"})
    assert [end(), end()] == [False, False], "it was ready between"
    assert [end(code="storage_unavailable") for _ in range(4)] == [False] * 4, "a store comes back"


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        ({"cause": ""}, {}),  # an exception without words
        ({"cause": None}, {}),
        ({"cause": ["a"], "hint": 7}, {"cause": "['a']", "hint": "7"}),
        ({"hint": None}, {"cause": FAULT["cause"], "hint": ""}),
    ],
)
def test_whatever_a_runtime_reports_of_its_end_the_session_is_recovered(
    project, told, fault
) -> None:
    session = factories.session_make(project)
    event_record(session_id=session.id, kind=EventKind.STATE, data={"to": "provisioning"})
    for _ in range(3):
        event_record(session_id=session.id, kind=EventKind.EVENT, data=FAULT | told)
    assert last_fault(session) == fault and repeats(session)
    failure = runtime_lost(
        cause="it ended with code 1", fault=last_fault(session), restarts=3, lines=["Killed"]
    )
    assert failure["cause"].startswith(fault.get("cause", "Killed").rstrip("."))


def test_runtimes_that_die_with_the_same_last_line_before_they_are_ready_are_not_started_again(
    project,
) -> None:
    session = factories.session_make(project)
    launches = itertools.count()

    def die(last: str, *, ready: bool = False) -> bool:
        for state in ("provisioning", "ready")[: 1 + ready]:
            event_record(session_id=session.id, kind=EventKind.STATE, data={"to": state})
        logged = json.dumps({"at": f"second {next(launches)}", "message": last})
        log_keep(session_id=session.id, launch=f"l{next(launches)}", lines=["began", logged, ""])
        return recovery.dies_alike(session)

    head = "RuntimeError: Unsupported head size 48"
    assert [die(head), die("Killed"), die(head), die(head), die(head)] == [False] * 4 + [True]
    assert [die(head, ready=True), die(head), die(head), die(head)] == [False] * 3 + [True]
    assert [die("") for _ in range(3)] == [False] * 3, "nothing was written"
    failure = runtime_lost(
        cause="its process ended", fault={}, restarts=2, lines=["a", json.dumps({"message": head})]
    )
    assert failure["cause"].startswith(f"{head} (its process ended), after 2 restarts")


def test_restarts_are_counted_for_ever_though_a_step_forgives_them(project) -> None:
    session, token = factories.runtime_make(project)
    session.refresh_from_db()
    requeue(session, "its process ended", 1)
    Session.objects.filter(id=session.id).update(
        state=SessionState.READY, lease_sha256=session.lease_sha256
    )
    body = RuntimeState(state=RuntimeStage.READY, progress=1, policy_version=1)
    leases.runtime_heartbeat(session=leases.lease_check(token=token), body=body)
    session.refresh_from_db()
    assert (session.restarts, session.restarts_ever) == (0, 1)


@pytest.mark.parametrize(
    ("steps", "rules"),
    [
        ([{"truncated": 0.97}] * 5, {AlertRule.TRUNCATED}),
        ([{"truncated": 0.97}] * 4 + [{"truncated": 0.1}] * 5, set()),
        ([{"groups": 4, "groups_skipped": 3, "groups_replaced": 4}] * 5, {AlertRule.EQUAL_REWARDS}),
        ([{"groups": 4, "groups_skipped": 4}] * 4, set()),  # too few
        ([{"groups": 4, "groups_skipped": 1, "groups_replaced": 0}] * 9, set()),
    ],
)
def test_answers_cut_off_and_equal_rewards_are_found(steps, rules) -> None:
    assert set(alerts_of(steps)) == rules


def test_a_suspension_ends_what_was_said_of_earlier_runtimes(project) -> None:
    session = factories.session_make(project, state=SessionState.READY)
    for rule in (AlertRule.RESTARTED, AlertRule.STUCK, AlertRule.DISK):
        alert_raise(session=session, rule=rule, text="it ended")
    recovery.move(session, SessionState.SUSPENDED, reason="it is idle")
    assert [alert.rule for alert in session.alerts.filter(over_at=None)] == [AlertRule.DISK]


def test_events_of_the_runtime_are_alerts_in_its_own_words(project) -> None:
    session, token = factories.runtime_make(project)
    tell(
        token,
        "a",
        name="nothing_to_learn",
        step=0,
        reason="64 groups had equal rewards",
        hint="Raise it.",
    )
    tell(
        token,
        "b",
        name="episodes_stale",
        n=3,
        why="too old",
        reason="3 episodes were dropped",
        hint="End them soon.",
    )
    tell(
        token,
        "c",
        name="episodes_stale",
        n=3,
        why="nothing to learn",
        reason="of the first",
        hint="",
    )
    tell(token, "d", name="store_full", reason="no room", hint="Free some.")
    tell(token, "e", name="answers_truncated", step=1, reason="of a rule over steps", hint="")
    found = session.alerts.order_by("id").values_list("rule", "text", "hint")
    assert list(found) == [
        ("equal_rewards", "64 groups had equal rewards", "Raise it."),
        ("episodes_dropped", "3 episodes were dropped", "End them soon."),
        ("disk", "no room", "Free some."),
    ]
    tell(token, "f", name="episodes_stale", n=1, why="too old", reason="again", hint="")
    Alert.objects.filter(rule="episodes_dropped").update(
        over_at=timezone.now(), at=timezone.now() - timedelta(hours=2)
    )
    assert session.alerts.count() == 3
    tell(token, "g", name="episodes_stale", n=1, why="too old", reason="later", hint="")
    assert session.alerts.count() == 4, "an hour later it is news"


def test_a_failed_checkpoint_is_an_alert_and_a_lost_automatic_one_is_none(project) -> None:
    session = factories.session_make(project, state=SessionState.READY)
    made = [
        Checkpoint.objects.create(
            session=session, kind=kind, ordered=ordered, state=CheckpointState.UPLOADING
        )
        for kind, ordered in ((CheckpointKind.STATE, False), (CheckpointKind.MODEL, True))
    ]
    checkpoints_fail(session_id=session.id, reason="Its runtime ended.", ordered=False)
    assert not session.alerts.exists()
    checkpoint_give_up(made[1], [CheckpointState.UPLOADING], "no room")
    (alert,) = session.alerts.all()
    assert (alert.rule, alert.text) == (
        "checkpoint_failed",
        "A model checkpoint could not be saved: no room",
    )


def test_a_nearly_full_disk_of_a_machine_is_an_alert_until_it_has_room(project) -> None:
    session, token = factories.runtime_make(project)

    def beat(free: int) -> None:
        ResourceChunk.objects.update(columns={"at": [0.0]})  # the last sample was long ago
        sample = ResourceSample.model_validate(
            SAMPLE | {"disk_free_bytes": free, "disk_total_bytes": 100}
        )
        body = RuntimeState(state=RuntimeStage.READY, progress=1, resources=sample)
        leases.runtime_heartbeat(session=leases.lease_check(token=token), body=body)

    for free, standing in ((50, 0), (2, 1), (1, 1), (40, 0), (2, 1)):
        beat(free)
        assert session.alerts.filter(over_at=None).count() == standing, free
    assert session.alerts.count() == 2
