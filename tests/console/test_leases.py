"""The lease side: the runtime that holds the lease is heard, every other one changes nothing."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.errors import InvalidRequest, StaleLease
from console.live.models import EventRecord
from console.scheduling import liveness
from console.scheduling.instance import leases_revoke
from console.sessions.models import Checkpoint, EpisodeRecord, RuntimeSpan, Session
from console.sessions.runtime import leases, uploads
from console.sessions.runtime.episode_reports import rows_save
from console.sessions.states import Actor
from console.sessions.transitions import session_move
from console.tinker.checkpoints import named_checkpoint_open
from console.tinker.models import TinkerModel, TinkerSession
from console.tinker.work import work_record
from support import factories
from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.trajectories import EpisodeRow, EpisodeRows
from tinkerscript.wire.runtime import (
    PHASE_WAITING,
    CheckpointFailure,
    FailureReport,
    Report,
    ReportEntry,
    RuntimeStage,
    RuntimeState,
)
from tinkerscript.wire.sessions import Accounting, SessionState
from tinkerscript.wire.tinker.messages import LoraOptions, NamedCheckpointOpen, WorkReport

BEAT = RuntimeState(
    state=RuntimeStage.READY,
    progress=1,
    address="127.0.0.1:4100",
    policy_version=3,
    reward_mean=0.5,
)
STEP = {
    "step": 1, "reward_mean": 0.1, "reward_std": 0.1, "loss": 0.1, "grad_norm": 1.0, "learning_rate": 1e-5,
    "kl_engine": 0.0, "entropy": 1.0, "clip_fraction": 0.0, "episodes": 8, "groups": 1, "groups_skipped": 0,
    "tokens_trained": 10, "tokens_computed": 20, "staleness_max": 0, "completion_length_mean": 4.0, "rollout_s": 1.0,
    "train_s": 1.0, "handover_s": 0.1,
}  # fmt: skip


def heartbeat(token: str, beat: RuntimeState = BEAT):
    return leases.runtime_heartbeat(session=leases.lease_check(token=token), body=beat)


def test_a_heartbeat_with_nothing_new_to_show_writes_to_no_index(project):
    """PostgreSQL would write to all indexes of the table, and every tick of the reconciler read
    what is left there.
    """
    session, token = factories.runtime_make(project)
    heartbeat(token)
    before = Session.objects.get(id=session.id)
    with CaptureQueriesContext(connection) as captured:
        heartbeat(token, BEAT.model_copy(update={"progress": BEAT.progress + 1}))
    after = Session.objects.get(id=session.id)
    assert (
        after.progress == before.progress + 1 and after.lease_expires_at > before.lease_expires_at
    )
    updates = [sql["sql"] for sql in captured.captured_queries if sql["sql"].startswith("UPDATE")]
    assert len(updates) == 2, updates
    for sql, model in zip(updates, (Session, RuntimeSpan), strict=True):
        table, written = re.fullmatch(r'UPDATE "(\w+)" SET (.+) WHERE .+', sql).groups()
        assert table == model._meta.db_table  # noqa: SLF001 - documented by Django
        with connection.cursor() as cursor:
            constraints = connection.introspection.get_constraints(cursor, table)
        indexed = {
            column
            for each in constraints.values()
            if each["index"]
            for column in each["columns"] or ()
        }
        assert set(re.findall(r'"(\w+)" = ', written)) & indexed == set(), table
    heartbeat(token, BEAT.model_copy(update={"policy_version": BEAT.policy_version + 1}))
    assert Session.objects.get(id=session.id).updated_at > before.updated_at


@pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite writes to the indexes whose columns change"
)
def test_postgresql_writes_the_rows_of_a_heartbeat_where_they_are(project):
    def written() -> dict[str, tuple[int, int]]:
        with connection.cursor() as cursor:  # of this transaction, in which a test runs
            cursor.execute("SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables")
            return {table: (updates, in_place) for table, updates, in_place in cursor.fetchall()}

    _, token = factories.runtime_make(project)
    heartbeat(token)
    before = written()
    heartbeat(token, BEAT.model_copy(update={"progress": BEAT.progress + 1}))
    after = written()
    for table in ("console_session", "console_runtimespan"):
        assert tuple(now - then for now, then in zip(after[table], before[table], strict=True)) == (
            1,
            1,
        ), table


def test_only_the_hash_of_a_lease_is_kept(project):
    session, token = factories.runtime_make(project)
    assert token.startswith(f"tml-ls-{session.id}.") and len(token.rpartition(".")[2]) == 64
    row = Session.objects.filter(id=session.id).values().get()
    assert token.rpartition(".")[2] not in str(row)


@pytest.mark.parametrize("token", ["", "x", "tml-ls-", "tml-ls-ses_unknown.00", "tml-ts_abc"])
def test_a_token_that_never_was_a_lease_is_refused(db, token):
    with pytest.raises(StaleLease):
        leases.lease_check(token=token)


def test_a_session_without_a_lease_has_no_token_that_opens_it(project):
    session = factories.session_make(project, state=SessionState.PROVISIONING)
    with pytest.raises(StaleLease):
        leases.lease_check(token=f"tml-ls-{session.id}.")


def test_a_runtime_registers_loads_and_becomes_ready(project):
    session, token = factories.runtime_make(project, SessionState.PROVISIONING)
    assignment = leases.runtime_register(session=leases.lease_check(token=token))
    assert assignment.session_id == session.id
    assert assignment.base_model_path.endswith(factories.BASE_MODEL)
    assert assignment.config.grpo_n == 8
    assert [bytes.fromhex(assignment.episode_signing_key)] == leases.episode_signing_keys(
        session_id=session.id
    )
    key = leases.relay_key(session_id=session.id, lease_sha256=session.lease_sha256)
    assert assignment.relay_key == key
    assert assignment.resume_from is None and assignment.journal_files == []
    session.refresh_from_db()
    assert session.state == SessionState.LOADING

    heartbeat(token, RuntimeState(state=RuntimeStage.LOADING, phase="reading weights", progress=1))
    session.refresh_from_db()
    assert (session.state, session.phase) == (SessionState.LOADING, "reading weights")

    orders = heartbeat(token)
    session.refresh_from_db()
    assert orders.stop is None and orders.checkpoints == []
    assert (session.state, session.gateway_port) == (SessionState.READY, 4100)
    assert (session.policy_version, session.reward_mean) == (3, 0.5)
    states = [
        event.data["to"]
        for event in EventRecord.objects.filter(session_id=session.id, kind="state")
    ]
    assert states == ["queued", "loading", "loading", "ready"]


def test_registering_again_returns_the_same_and_moves_nothing(project):
    session, token = factories.runtime_make(project, SessionState.PROVISIONING)
    first = leases.runtime_register(session=leases.lease_check(token=token))
    heartbeat(token)
    again = leases.runtime_register(session=leases.lease_check(token=token))
    session.refresh_from_db()
    assert again == first and session.state == SessionState.READY


def test_the_keys_of_two_sessions_differ(project):
    one, two = (factories.session_make(project).id for _ in range(2))
    keys = {leases.relay_key(session_id=each, lease_sha256="a") for each in (one, two)}
    assert len(keys) == 2
    assert leases.episode_signing_keys(session_id=one) != leases.episode_signing_keys(
        session_id=two
    )


def test_the_key_of_an_earlier_launch_is_another(project):
    """Who got it from a port that they took opens nothing with it once the runtime is launched
    again.
    """
    session, token = factories.runtime_make(project)
    first = leases.runtime_register(session=leases.lease_check(token=token)).relay_key
    second = leases.runtime_register(
        session=leases.lease_check(token=leases.lease_issue(session=session))
    ).relay_key
    assert first != second


def test_revoked_leases_change_nothing_and_have_the_reconciler_start_anew(project):
    """Those of this machine: of a place elsewhere no runtime looks for the server on our
    loopback.
    """
    session, token = factories.runtime_make(project)
    elsewhere, other = factories.runtime_make(project, place="cluster")
    assert leases_revoke() == 1
    with pytest.raises(StaleLease):
        leases.lease_check(token=token)
    assert leases.lease_check(token=other).id == elsewhere.id
    session.refresh_from_db()
    assert (session.lease_sha256, session.address) == ("", "")
    now = timezone.now()
    assert "revoked" in (liveness.stuck_cause(session, now=now, judging_since=now) or "")
    assert liveness.stuck_cause(elsewhere, now=now, judging_since=now) is None


def test_a_replaced_lease_changes_nothing(project):
    session, old = factories.runtime_make(project)
    stale = leases.lease_check(token=old)  # read before the new lease was issued, used after it
    new = leases.lease_issue(session=session)
    checkpoint = session.checkpoints.create(kind="state", ordered=True)
    failed = CheckpointFailure(checkpoint_id=checkpoint.id, reason="no room")
    lora = LoraOptions(rank=8)
    client = TinkerSession.objects.create(project=project)
    model = TinkerModel.objects.create(
        id="m", tinker_session=client, session=session, number=0, lora=lora.model_dump()
    )
    named = NamedCheckpointOpen(model_id=model.id, segment="weights", name="a", lora=lora)
    before = Session.objects.filter(id=session.id).values().get()
    events = EventRecord.objects.count()
    attempts = [
        lambda s: leases.runtime_heartbeat(session=s, body=BEAT),
        lambda s: leases.runtime_register(session=s),
        lambda s: leases.runtime_report(session=s, body=Report(entries=[])),
        lambda s: leases.runtime_fail(session=s, body=FailureReport(code="x", cause="y")),
        lambda s: uploads.checkpoint_fail(session=s, body=failed),
        lambda s: rows_save(session=s, body=EpisodeRows(rows=[])),
        lambda s: named_checkpoint_open(session=s, body=named),
        lambda s: work_record(session=s, body=WorkReport(key="k", tokens={}, spans=[])),
    ]
    for attempt in attempts:
        with pytest.raises(StaleLease):
            attempt(stale)
    with pytest.raises(StaleLease):
        leases.lease_check(token=old)
    assert Session.objects.filter(id=session.id).values().get() == before
    assert EventRecord.objects.count() == events
    assert list(session.checkpoints.all()) == [checkpoint]
    checkpoint.refresh_from_db()
    assert checkpoint.state == "requested"
    assert heartbeat(new).checkpoints[0].checkpoint_id == checkpoint.id


def test_an_expired_lease_that_no_one_replaced_goes_on(project):
    session, token = factories.runtime_make(project)
    Session.objects.filter(id=session.id).update(
        lease_expires_at=timezone.now() - timezone.timedelta(minutes=9)
    )
    heartbeat(token)
    session.refresh_from_db()
    assert session.lease_expires_at > timezone.now()


@pytest.mark.parametrize("state", [state for state in SessionState if state.is_terminal])
def test_a_session_that_ended_hears_no_runtime(project, state):
    _session, token = factories.runtime_make(project, state)
    with pytest.raises(StaleLease):
        leases.lease_check(token=token)


@pytest.mark.parametrize(
    ("state", "desired", "ordered"),
    [
        (SessionState.READY, "run", None),
        (SessionState.READY, "stop", "stop"),
        (SessionState.READY, "suspend", "suspend"),
        (SessionState.LOADING, "stop", "stop"),
        (SessionState.STOPPING, "stop", "stop"),
    ],
)
def test_what_is_wanted_is_ordered_at_every_heartbeat(project, state, desired, ordered):
    _session, token = factories.runtime_make(project, state, desired=desired)
    assert [heartbeat(token).stop, heartbeat(token).stop] == [ordered, ordered]


def test_a_checkpoint_stays_ordered_until_it_is_committed(project):
    session, token = factories.runtime_make(project)
    wanted = session.checkpoints.create(kind="model", ordered=True)
    session.checkpoints.create(kind="state", state="uploading")  # the runtime's own: no order
    for state in ("requested", "uploading"):
        session.checkpoints.filter(id=wanted.id).update(state=state)
        orders = heartbeat(token).checkpoints
        assert [(order.checkpoint_id, order.kind) for order in orders] == [
            (wanted.id, CheckpointKind.MODEL)
        ]
    session.checkpoints.filter(id=wanted.id).update(state="committed")
    assert heartbeat(token).checkpoints == []


def test_a_new_runtime_is_asked_anew_for_what_the_old_one_was_writing(project):
    session, _token = factories.runtime_make(project)
    ordered = session.checkpoints.create(kind="model", ordered=True, state="uploading")
    automatic = session.checkpoints.create(kind="state", state="uploading")
    leases.lease_issue(session=session)
    ordered.refresh_from_db()
    automatic.refresh_from_db()
    assert ordered.state == "requested"
    assert (automatic.state, automatic.failure) == (
        "failed",
        "Its runtime ended before it was written.",
    )


def test_the_progress_clock_starts_anew_only_when_something_moved(project):
    session, token = factories.runtime_make(project)
    long_ago = timezone.now() - timezone.timedelta(hours=1)
    heartbeat(token)
    for beat, moved in [
        (BEAT, False),
        (BEAT.model_copy(update={"progress": 2}), True),
        (BEAT.model_copy(update={"progress": 2, "phase": "step 4"}), True),
        (BEAT.model_copy(update={"progress": 2, "phase": "step 4", "reward_mean": 1.0}), False),
    ]:
        Session.objects.filter(id=session.id).update(progress_at=long_ago)
        heartbeat(token, beat)
        session.refresh_from_db()
        assert (session.progress_at != long_ago) is moved, beat


def test_restarts_are_forgotten_only_after_a_step_that_is_new(project):
    session, token = factories.runtime_make(project, restarts=4, policy_version_high=7)
    for version, restarts in [(5, 4), (7, 4), (8, 0)]:
        heartbeat(token, BEAT.model_copy(update={"policy_version": version}))
        session.refresh_from_db()
        assert (session.policy_version, session.restarts) == (version, restarts)


@pytest.mark.parametrize(("kind", "left"), [("serving", 0), ("tinker", 0), ("episodes", 4)])
def test_restarts_of_a_session_that_serves_calls_are_forgotten_once_it_was_ready_for_minutes(
    project, kind, left
):
    session, token = factories.runtime_make(
        project, kind=kind, restarts=4, policy_version=8, policy_version_high=8
    )
    for ready_for, restarts in [(leases.STEADY / 2, 4), (leases.STEADY * 1.1, left)]:
        Session.objects.filter(id=session.id).update(state_since=timezone.now() - ready_for)
        heartbeat(token, BEAT.model_copy(update={"policy_version": 8}))
        session.refresh_from_db()
        assert session.restarts == restarts


def test_a_loading_runtime_does_not_take_back_the_version_that_users_see(project):
    session, token = factories.runtime_make(
        project, SessionState.LOADING, policy_version=5, reward_mean=0.7
    )
    heartbeat(token, RuntimeState(state=RuntimeStage.LOADING, progress=1))
    session.refresh_from_db()
    assert (session.policy_version, session.reward_mean) == (5, 0.7)


def test_the_episode_ledger_is_kept_as_reported(project):
    session, token = factories.runtime_make(project)
    ledger = Accounting(begun=3, trained=2, abandoned=1, abandoned_by_reason={"error": 1})
    heartbeat(
        token, BEAT.model_copy(update={"accounting": ledger, "last_activity_at": 1_700_000_000.0})
    )
    session.refresh_from_db()
    assert Accounting.model_validate(session.accounting) == ledger
    assert session.last_activity_at.timestamp() == 1_700_000_000.0


def test_the_ledger_of_a_restarting_runtime_is_the_last_known_and_nothing_is_open_after_the_end(
    project,
):
    session, token = factories.runtime_make(project)
    ledger = Accounting(begun=7, open=2, trained=4, abandoned=1, abandoned_by_reason={"why": 1})
    heartbeat(token, BEAT.model_copy(update={"accounting": ledger}))
    fates = ("open", "trained")
    rows = [
        EpisodeRow(episode_id=f"ep_{n}", seq=n, begun_at=1.0, fate=fate)
        for n, fate in enumerate(fates)
    ]
    rows_save(session=leases.lease_check(token=token), body=EpisodeRows(rows=rows))
    heartbeat(token, BEAT.model_copy(update={"state": RuntimeStage.LOADING}))
    session.refresh_from_db()
    assert Accounting.model_validate(session.accounting) == ledger
    for source, target in (("ready", "stopping"), ("stopping", "stopped")):
        session_move(
            session_id=session.id,
            source=SessionState(source),
            target=SessionState(target),
            actor=Actor.RECONCILER,
        )
    session.refresh_from_db()
    left = Accounting.model_validate(session.accounting)
    assert (left.begun, left.open, left.abandoned) == (7, 0, 3) and left.balances
    assert left.abandoned_by_reason == {"why": 1, "session_ended": 2}
    kept = EpisodeRecord.objects.order_by("seq").values_list("fate", "reason")
    assert list(kept) == [("abandoned", "session_ended"), ("trained", "")]


def test_a_runtime_does_not_choose_where_requests_are_sent(project):
    session, token = factories.runtime_make(project)
    heartbeat(token, BEAT.model_copy(update={"address": "169.254.169.254:80"}))
    session.refresh_from_db()
    assert (session.address, session.gateway_port) == ("", 80)


@pytest.mark.parametrize(
    "address", ["h:0", "h:65536", "http://e/", "host", "a:b", "h:1/../x", "u@host:80", "h:1\n"]
)
def test_an_address_that_is_no_host_and_port_is_refused(project, address):
    session, token = factories.runtime_make(project)
    with pytest.raises(InvalidRequest):
        heartbeat(token, BEAT.model_copy(update={"address": address}))
    session.refresh_from_db()
    assert session.address == ""


def test_a_report_sent_twice_is_recorded_once(project):
    session, token = factories.runtime_make(project)
    body = Report(
        entries=[
            ReportEntry(key="step-1", kind=EventKind.METRIC, data=STEP),
            ReportEntry(key="log-1", kind=EventKind.LOG, data={"line": "hello"}),
        ]
    )
    for _ in range(2):
        leases.runtime_report(session=leases.lease_check(token=token), body=body)
    kept = EventRecord.objects.filter(session_id=session.id, key__isnull=False).order_by("id")
    assert [(event.key, event.kind) for event in kept] == [("step-1", "metric"), ("log-1", "log")]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (EventKind.STATE, {"from": "ready", "to": "stopped"}),
        (EventKind.EVENT, {"name": "x", "value": float("nan")}),
        (EventKind.METRIC, {"step": 1}),
    ],
)
def test_a_malformed_report_is_refused_whole(project, kind, data):
    session, token = factories.runtime_make(project)
    good = ReportEntry(key="ok", kind=EventKind.LOG, data={"line": "fine"})
    with pytest.raises(InvalidRequest, match="bad:"):
        body = Report(entries=[good, ReportEntry(key="bad", kind=kind, data=data)])
        leases.runtime_report(session=leases.lease_check(token=token), body=body)
    assert not EventRecord.objects.filter(session_id=session.id, key__isnull=False).exists()


def test_an_ordered_checkpoint_that_cannot_be_made_fails_and_the_session_goes_on(project):
    session, token = factories.runtime_make(project, SessionState.READY)
    other, _ = factories.runtime_make(project, SessionState.READY)
    made = [
        Checkpoint.objects.create(session=each, kind="model", ordered=True)
        for each in (session, other)
    ]
    lease = leases.lease_check(token=token)
    for each in made:
        uploads.checkpoint_fail(
            session=lease, body=CheckpointFailure(checkpoint_id=each.id, reason="ValueError: no")
        )
    for each in (*made, session):
        each.refresh_from_db()
    assert [(each.state, each.failure) for each in made] == [
        ("failed", "ValueError: no"),
        ("requested", ""),
    ]
    assert session.state == SessionState.READY
    assert heartbeat(token).checkpoints == []


def test_a_runtime_that_gives_up_fails_the_session_with_its_cause(project):
    session, token = factories.runtime_make(project, SessionState.LOADING)
    body = FailureReport(
        code="model_unreadable", cause="no weights in the folder", hint="choose another"
    )
    leases.runtime_fail(session=leases.lease_check(token=token), body=body)
    session.refresh_from_db()
    assert session.state == SessionState.FAILED
    assert session.failure == {
        "code": "model_unreadable",
        "cause": "no weights in the folder",
        "hint": "choose another",
    }
    with pytest.raises(StaleLease):
        heartbeat(token)


def test_a_runtime_learns_whether_the_session_fails_with_it(project, settings):
    for restarts, last in ((settings.MAX_RESTARTS - 1, False), (settings.MAX_RESTARTS, True)):
        _session, token = factories.runtime_make(project, restarts=restarts, policy_version_high=3)
        assert heartbeat(token).last_try is last
    further = BEAT.model_copy(update={"policy_version": 4})
    assert heartbeat(token, further).last_try is False, (
        "a step that was never done before gives it new tries"
    )


def test_how_far_the_next_batch_is_changes_the_session_and_is_no_entry_of_its_record(project):
    session, token = factories.runtime_make(project, SessionState.READY)
    entries = EventRecord.objects.filter(session_id=session.id, kind="state")
    heartbeat(token, BEAT.model_copy(update={"phase": PHASE_WAITING}))
    before = entries.count()
    phase = f"{PHASE_WAITING}: 0 of 4 groups complete; 1 group waits with 6 of 8; task 17 lacks 2"
    heartbeat(token, BEAT.model_copy(update={"phase": phase}))
    session.refresh_from_db()
    assert (session.phase, entries.count()) == (phase, before)
    heartbeat(token, BEAT.model_copy(update={"phase": "training step 1"}))
    assert entries.count() == before + 1


def test_what_each_second_costs_for_each_runtime_does_not_grow_unseen(
    project, django_assert_max_num_queries
):
    """The row by its lease, the row locked, the row and the span written, orders; a transaction."""
    _session, token = factories.runtime_make(project)
    heartbeat(token)
    with django_assert_max_num_queries(7):
        heartbeat(token, BEAT.model_copy(update={"progress": 2}))
