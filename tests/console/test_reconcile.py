"""The reconciler, with a launcher and a clock of our own: every way to go wrong, and what
follows.
"""

from datetime import timedelta

import pytest
from django.core.management import call_command

from console.live.models import EventRecord
from console.scheduling.leader import leader_renew
from console.sessions import services
from console.sessions.models import Session
from console.sessions.runtime import leases
from console.users.selectors import project_get
from console.webhooks.models import Delivery
from console.webhooks.services import webhook_create
from support import factories
from support.reconciler_world import GIB, READY, state_of
from tinkerscript.wire.runtime import PHASE_PREEMPTED, RuntimeStage, RuntimeState
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookEvent, WebhookTopic


def moves_of(session):
    events = EventRecord.objects.filter(session_id=session.id, kind="state").order_by("id")
    return [event.data["to"] for event in events if event.data["from"] != event.data["to"]]


def why_queued(session):
    return (
        EventRecord.objects.filter(session_id=session.id, data__to="queued")
        .latest("id")
        .data["reason"]
    )


def test_a_queued_session_is_launched_with_its_lease(world, project, settings):
    settings.TRUSTED_USERS = [33, 65534]
    session = world.session(project)
    world.tick()
    assert state_of(session) == SessionState.PROVISIONING
    assert session.launch_handle["pid"] == 4711 and session.launcher == "fake"
    (environment,) = world.launcher.alive.values()
    assert environment["TINKERSCRIPT_SERVER_URL"] == "http://127.0.0.1:8000"
    assert environment["TINKERSCRIPT_TRUSTED_USERS"] == "33,65534", (
        "numbers: it may have other names for them"
    )
    assert environment["TINKERSCRIPT_RUNTIME_DIR"] == str(settings.DATA / "runtimes" / session.id)
    assert leases.lease_check(token=environment["TINKERSCRIPT_LEASE"]) == session


def test_no_more_sessions_run_than_there_are_places(world, project, settings):
    settings.MAX_RUNTIMES = 2
    sessions = [world.session(project) for _ in range(4)]
    world.tick(3)
    assert [state_of(session) for session in sessions] == [
        "provisioning",
        "provisioning",
        "queued",
        "queued",
    ]
    services.session_stop(project=project, session_id=sessions[0].id)
    world.launcher.alive.pop(sessions[0].launch_handle["launch"])
    world.tick(3)
    assert [state_of(session) for session in sessions] == [
        "stopped",
        "provisioning",
        "provisioning",
        "queued",
    ]


def test_a_runtime_that_was_killed_is_launched_again_from_the_front_of_the_queue(
    world, project, bob
):
    session = world.ready(project)
    waiting = world.session(project_get(user=bob))
    old = world.launcher.alive.copy()
    world.launcher.die(-9)
    world.tick(2)
    assert state_of(session) == SessionState.PROVISIONING and session.restarts == 1
    assert state_of(waiting) == SessionState.QUEUED
    assert moves_of(session)[-3:] == ["ready", "queued", "provisioning"]
    assert why_queued(session) == "the runtime's process ended with code -9"
    (new,) = world.launcher.alive.values()
    (before,) = old.values()
    assert new["TINKERSCRIPT_LEASE"] != before["TINKERSCRIPT_LEASE"]
    with pytest.raises(Exception, match="lease"):
        leases.lease_check(token=before["TINKERSCRIPT_LEASE"])


@pytest.mark.system
def test_a_runtime_that_keeps_dying_fails_with_its_last_lines(world, project):
    session = world.session(project)
    for _ in range(3):  # the same last line each time: the next one would end so too
        world.tick(40)
        assert state_of(session) == SessionState.PROVISIONING
        world.launcher.die(1)
    world.tick(2)
    assert state_of(session) == SessionState.FAILED
    assert session.failure["code"] == "runtime_lost" and "with code 1" in session.failure["cause"]
    assert session.failure["cause"].startswith("line 99 (") and session.failure["hint"]
    assert session.failure["log"] == [f"line {number}" for number in range(60, 100)]
    assert session.launch_handle is None
    world.tick(60)
    assert world.launcher.alive == {}


def test_the_end_of_the_last_runtime_that_a_session_may_have_fails_it(world, project, settings):
    settings.MAX_RUNTIMES = 2
    last, one_more = world.ready(project), world.ready(project)
    assert settings.MAX_RESTARTS == 5
    Session.objects.filter(id=last.id).update(restarts=5)
    Session.objects.filter(id=one_more.id).update(restarts=4)
    world.launcher.die(1)
    world.tick()
    assert (state_of(last), state_of(one_more)) == (SessionState.FAILED, SessionState.QUEUED)
    assert last.failure["code"] == "runtime_lost"
    assert last.failure["cause"].endswith("after 5 restarts without a completed step.")
    assert one_more.restarts == 5


def test_a_session_whose_machines_are_taken_away_again_and_again_does_not_fail(world, project):
    session = world.ready(project)
    for _ in range(7):
        world.beat(READY.model_copy(update={"phase": f"{PHASE_PREEMPTED}: saving"}))
        world.launcher.die(143)
        world.tick()
        assert (
            why_queued(session)
            == "its machine was taken away: the runtime's process ended with code 143"
        )
        world.tick(2)
        assert state_of(session) == SessionState.PROVISIONING and session.restarts == 0
    world.launcher.die(1)  # of itself, before it said a word
    world.tick(2)
    assert state_of(session) == SessionState.PROVISIONING and session.restarts == 1


@pytest.mark.system
def test_restarts_that_bring_steps_go_on_for_ever(world, project):
    session = world.session(project)
    for version in range(1, 12):
        world.tick(40)
        world.beat(READY.model_copy(update={"policy_version": version}))
        world.launcher.die()
        world.tick()
        assert state_of(session) != SessionState.FAILED


def test_restarts_wait_longer_each_time_and_keep_their_position(world, project, bob):
    session = world.ready(project)
    waiting = world.session(project_get(user=bob))
    Session.objects.filter(id=session.id).update(restarts=2)
    world.launcher.die()
    world.tick()
    assert state_of(session) == SessionState.QUEUED and session.restarts == 3
    world.tick(2.5)
    assert (state_of(session), state_of(waiting)) == (SessionState.QUEUED, SessionState.QUEUED)
    world.tick(1)
    assert (state_of(session), state_of(waiting)) == (
        SessionState.PROVISIONING,
        SessionState.QUEUED,
    )


@pytest.mark.system
@pytest.mark.parametrize(("state", "after_s"), [("provisioning", 900), ("loading", 900)])
def test_a_runtime_without_progress_is_replaced_at_its_deadline(world, project, state, after_s):
    session = world.session(project)
    world.tick()
    beat = RuntimeState(state=RuntimeStage.LOADING, progress=1) if state == "loading" else None
    if beat:
        world.beat(beat)
    world.tick(after_s, beat=beat, step_s=9)
    assert state_of(session) == state and session.restarts == 0
    world.tick(2)
    assert state_of(session) == SessionState.PROVISIONING and session.restarts == 1
    assert "no progress" in why_queued(session)
    assert len(world.launcher.stopped) == 1


@pytest.mark.system
def test_a_ready_runtime_that_is_stuck_in_its_work_is_replaced(world, project):
    webhook_create(project=project, url="https://example.com/", topics=[WebhookTopic.SESSION_STUCK])
    session = world.ready(project)
    stuck = READY.model_copy(update={"phase": "step 3"})
    world.beat(stuck)
    world.tick(900, beat=stuck, step_s=9)
    assert state_of(session) == SessionState.READY
    world.tick(2, beat=stuck)
    assert why_queued(session) == "the runtime made no progress for 900 s while ready (step 3)"
    (delivery,) = Delivery.objects.all()
    assert "made no progress" in WebhookEvent.model_validate_json(delivery.body).data["cause"]


@pytest.mark.system
def test_a_ready_runtime_that_waits_for_its_clients_is_left_alone(world, project):
    session = world.ready(project, idle_suspend_s=86_400)
    world.tick(2000, beat=READY, step_s=9)
    assert state_of(session) == SessionState.READY and world.launcher.stopped == []


def test_a_runtime_on_a_lost_machine_is_replaced_once_its_lease_is_over(world, project):
    """Long before its deadline, while it starts."""
    session = world.session(project)
    world.tick()
    world.launcher.lost = "machine n1 is lost"
    world.tick(15 + 14)
    assert state_of(session) == SessionState.PROVISIONING and session.restarts == 0
    world.tick(3)
    assert (state_of(session), session.restarts) == (SessionState.PROVISIONING, 1)
    assert why_queued(session) == "the runtime is lost: machine n1 is lost"


@pytest.mark.system
def test_a_runtime_that_holds_its_lease_is_not_lost_whatever_is_said_of_its_machine(world, project):
    session = world.ready(project)
    world.launcher.lost = "machine n1 is lost"
    world.tick(120, beat=READY)
    assert state_of(session) == SessionState.READY and world.launcher.stopped == []


def test_a_living_runtime_that_falls_silent_is_replaced_after_its_lease_and_a_grace(world, project):
    session = world.ready(project)
    world.tick(15 + 30)
    assert state_of(session) == SessionState.READY
    world.tick(2)
    assert state_of(session) != SessionState.READY and session.restarts == 1
    assert len(world.launcher.stopped) == 1


def test_a_new_reconciler_adopts_living_runtimes_and_gives_them_time_to_speak(world, project):
    session = world.ready(project)
    world.now += timedelta(minutes=9)  # the server was away; leases ran out meanwhile
    world.reconciler = world.another()
    world.tick(29)
    assert state_of(session) == SessionState.READY and world.launcher.stopped == []
    world.tick(20, beat=READY)
    assert (
        state_of(session) == SessionState.READY
        and session.restarts == 0
        and len(world.launcher.alive) == 1
    )


def test_a_machine_that_slept_wakes_with_its_sessions(world, project):
    session = world.ready(project)
    world.now += timedelta(hours=8)
    world.tick(20)
    world.tick(20, beat=READY.model_copy(update={"last_activity_at": world.now.timestamp()}))
    assert state_of(session) == SessionState.READY and session.restarts == 0


def test_a_runtime_that_died_while_no_reconciler_ran_is_launched_again(world, project):
    session = world.ready(project)
    world.launcher.die()
    world.launcher.ends.clear()  # not our child: no exit code
    world.now += timedelta(minutes=1)
    world.reconciler = world.another()
    assert leader_renew(holder="x", now=world.now)
    world.now += timedelta(seconds=11)
    world.tick(2)
    assert state_of(session) == SessionState.PROVISIONING
    assert why_queued(session) == "the runtime's process ended"


def test_a_reconciler_that_died_between_plan_and_start_loses_nothing(world, project):
    session = world.session(project)
    start = world.launcher.start
    world.launcher.start = lambda *_, **__: (_ for _ in ()).throw(SystemExit)
    with pytest.raises(SystemExit):
        world.tick()
    assert state_of(session) == SessionState.PROVISIONING and "pid" not in session.launch_handle
    world.launcher.start = start
    world.reconciler = world.another()
    world.now += timedelta(seconds=11)
    world.tick(2)
    assert state_of(session) == SessionState.PROVISIONING and session.launch_handle["pid"] == 4711


def test_a_program_that_cannot_be_started_fails_the_session_in_the_end(world, project):
    world.launcher.broken = True
    session = world.session(project)
    world.tick(120)
    assert (
        state_of(session) == SessionState.FAILED
        and "could not be started" in session.failure["cause"]
    )


def test_a_session_whose_cluster_lost_a_machine_waits_with_words_and_goes_on(world, project):
    """However long that takes."""
    session = world.ready(project)
    world.launcher.short = "2 machines are needed, and the cluster has 1"
    world.launcher.die(1)
    for _ in range(20):
        world.tick(60, step_s=60)
        assert state_of(session) == SessionState.QUEUED and "has 1" in why_queued(session)
    assert session.restarts == 1, "the end of its runtime alone"
    world.launcher.short = ""
    world.tick(90, step_s=10)
    assert state_of(session) == SessionState.PROVISIONING


def test_a_session_that_never_had_its_machines_is_refused_with_what_was_found(world, project):
    world.launcher.short = "2 machines are needed, and the cluster has 1"
    new = world.session(project)
    world.tick(120)
    assert state_of(new) == SessionState.FAILED and "has 1" in new.failure["cause"]


def test_a_stop_is_ordered_and_ends_when_the_process_has(world, project):
    session = world.ready(project)
    services.session_stop(project=project, session_id=session.id)
    world.tick()
    assert state_of(session) == SessionState.STOPPING
    world.tick(50, beat=READY)
    assert state_of(session) == SessionState.STOPPING
    world.launcher.die(0)
    world.tick()
    assert state_of(session) == SessionState.STOPPED and session.launch_handle is None
    assert moves_of(session)[-2:] == ["stopping", "stopped"]


def test_a_runtime_that_does_not_end_when_asked_is_killed_after_its_grace(world, project):
    session = world.ready(project)
    services.session_stop(project=project, session_id=session.id)
    saving = READY.model_copy(update={"state": "stopping", "phase": "saving"})
    world.tick(beat=saving)
    world.tick(60, beat=saving)
    assert state_of(session) == SessionState.STOPPING
    world.tick(2, beat=saving)
    assert state_of(session) == SessionState.STOPPED and world.launcher.alive == {}


def test_a_runtime_that_is_still_writing_when_asked_to_end_is_given_the_time(world, project):
    session = world.ready(project)
    services.session_stop(project=project, session_id=session.id)
    world.tick()
    for progress in range(6, 26):
        saving = READY.model_copy(
            update={"state": "stopping", "phase": "saving", "progress": progress}
        )
        world.tick(20, beat=saving, step_s=9)
    assert state_of(session) == SessionState.STOPPING


def test_a_stop_before_the_runtime_speaks_ends_it_too(world, project):
    session = world.session(project)
    world.tick()
    services.session_stop(project=project, session_id=session.id)
    world.tick()
    world.tick(62)
    assert state_of(session) == SessionState.STOPPED and world.launcher.alive == {}


@pytest.mark.smoke
def test_an_idle_session_is_suspended_and_woken_by_a_request(world, project):
    session = world.ready(project, idle_suspend_s=100)
    world.tick(99, beat=READY)
    session.refresh_from_db()
    assert session.desired == "run"
    waits = (
        "waiting for episodes: 0 of 4 groups complete; 1 group waits with 6 of 8; task 17 lacks 2"
    )
    world.tick(3, beat=READY.model_copy(update={"phase": waits}))
    session.refresh_from_db()
    assert (session.state, session.desired) == (SessionState.READY, "suspend")
    world.launcher.die(0)
    world.tick()
    assert state_of(session) == SessionState.SUSPENDED
    assert (session.launch_handle, session.lease_sha256, session.address) == (None, "", "")
    world.tick(60)
    assert world.launcher.alive == {}
    services.session_wake(session=session)
    world.tick()
    assert (
        state_of(session) == SessionState.PROVISIONING
        and session.desired == "run"
        and session.restarts == 0
    )


def test_a_session_with_an_open_episode_or_an_order_is_not_idle(world, project):
    session = world.ready(project, idle_suspend_s=10)
    busy = READY.model_copy(
        update={"accounting": READY.accounting.model_copy(update={"begun": 1, "open": 1})}
    )
    world.tick(30, beat=busy)
    session.refresh_from_db()
    assert session.desired == "run"
    checkpoint = session.checkpoints.create(kind="model", ordered=True)
    world.tick(30, beat=READY)
    session.refresh_from_db()
    assert session.desired == "run"
    checkpoint.delete()
    world.tick(2, beat=READY)
    session.refresh_from_db()
    assert session.desired == "suspend"


def test_a_runtime_that_does_not_suspend_when_asked_is_suspended_all_the_same(world, project):
    session = world.ready(project, idle_suspend_s=10)
    world.tick(12, beat=READY)
    world.tick(62, beat=READY.model_copy(update={"phase": "saving"}))
    assert state_of(session) == SessionState.SUSPENDED and world.launcher.alive == {}


def test_no_runtime_starts_on_a_full_disk(world, project):
    world.free = GIB // 2
    session = world.session(project)
    world.tick()
    assert state_of(session) == SessionState.FAILED and session.failure["code"] == "disk_full"
    assert "512 MiB are free" in session.failure["cause"] and session.failure["hint"]
    assert world.launcher.alive == {}


def test_a_session_that_ran_before_waits_for_room_on_the_disk_and_goes_on(world, project):
    session = world.ready(project)
    world.free = GIB // 2
    world.launcher.die()
    world.tick(60, step_s=10)
    assert state_of(session) == SessionState.QUEUED and world.launcher.alive == {}
    assert session.phase == "the server's disk is nearly full: waits for 1024 MiB of free space"
    assert EventRecord.objects.filter(session_id=session.id, data__phase=session.phase).count() == 1
    world.free = 2 * GIB
    world.tick()
    assert state_of(session) == SessionState.PROVISIONING and session.restarts == 1


def test_the_process_of_a_session_that_failed_is_ended(world, project):
    session = world.ready(project)
    factories.Session.objects.filter(id=session.id).update(state="failed")
    world.tick()
    session.refresh_from_db()
    assert world.launcher.alive == {} and session.launch_handle is None


def test_one_session_that_cannot_be_looked_at_does_not_keep_the_others(
    world, project, settings, caplog
):
    settings.MAX_RUNTIMES = 2
    broken, healthy = world.session(project), world.session(project)
    world.tick()
    inspect = world.launcher.inspect
    world.launcher.die()

    def fail_for_one(handle):
        if handle["launch"].startswith(broken.id):
            raise OSError("no /proc")
        return inspect(handle)

    world.launcher.inspect = fail_for_one
    world.tick(2)
    assert state_of(healthy) == SessionState.PROVISIONING and healthy.restarts == 1
    assert "could not be reconciled" in caplog.text


def test_of_two_reconcilers_one_leads_until_it_is_gone(world, project):
    session = world.session(project)
    second = world.another()
    assert world.reconciler.reconcile_once() and not second.reconcile_once()
    world.now += timedelta(seconds=11)  # the first was killed
    assert second.reconcile_once()
    assert not world.reconciler.reconcile_once()
    second.close()
    assert world.reconciler.reconcile_once()
    assert state_of(session) == SessionState.PROVISIONING and len(world.launcher.alive) == 1


def test_a_server_that_stops_queues_its_sessions_in_front_and_blames_no_one(world, project, bob):
    waiting = world.session(project_get(user=bob))
    Session.objects.filter(id=waiting.id).update(state="suspended")
    session = world.ready(project)
    Session.objects.filter(id=waiting.id).update(state="queued")
    world.reconciler.release_all(grace_s=1)
    assert (
        state_of(session) == SessionState.QUEUED
        and session.restarts == 0
        and world.launcher.alive == {}
    )
    Session.objects.filter(id=waiting.id).update(
        state_since=session.created_at + timedelta(seconds=5)
    )
    world.tick()
    assert (state_of(session), state_of(waiting)) == (
        SessionState.PROVISIONING,
        SessionState.QUEUED,
    )


@pytest.mark.parametrize(("desired", "ends_as"), [("suspend", "suspended"), ("stop", "stopped")])
def test_a_server_that_stops_does_not_forget_what_was_wanted(world, project, desired, ends_as):
    session = world.ready(project)
    Session.objects.filter(id=session.id).update(desired=desired)
    world.reconciler.release_all(grace_s=0)
    world.reconciler = world.another()
    world.now += timedelta(seconds=11)
    world.tick(3)
    assert state_of(session) == ends_as


@pytest.mark.system
def test_an_engine_that_does_not_answer_costs_no_session(world, project, settings, caplog):
    settings.MAX_RUNTIMES = 2
    session = world.ready(project)
    waiting = world.session(project)
    world.launcher.away = True
    world.tick(60, beat=READY)
    world.reconciler.release_all(grace_s=0)
    assert (state_of(session), session.restarts) == (SessionState.READY, 0)
    assert "nothing listens there" in caplog.text and "Traceback" not in caplog.text
    world.launcher.away = False
    world.tick(5, beat=READY)
    assert (state_of(session), session.restarts) == (SessionState.READY, 0)
    assert (
        state_of(waiting) in (SessionState.PROVISIONING, SessionState.READY)
        and len(world.launcher.alive) == 2
    )


def test_a_drained_server_suspends_what_is_ready_and_starts_nothing_until_the_drain_ends(
    world, project, capsys
):
    running = world.ready(project)
    waiting = world.session(project)
    call_command("drain")
    assert "1 sessions have a runtime" in capsys.readouterr().out
    world.tick(beat=READY)
    running.refresh_from_db()
    assert running.desired == "suspend"
    world.launcher.die(code=0)
    world.tick(3)
    assert (state_of(running), state_of(waiting)) == (SessionState.SUSPENDED, SessionState.QUEUED)
    call_command("drain", "--off")
    world.tick()
    assert (state_of(running), state_of(waiting)) == (
        SessionState.SUSPENDED,
        SessionState.PROVISIONING,
    )


def test_requests_are_sent_where_the_launcher_says(world, project):
    session = world.session(project)
    world.tick()
    world.beat(READY.model_copy(update={"address": "169.254.169.254:9"}))
    world.tick()
    session.refresh_from_db()
    assert session.address == "127.0.0.1:9"
    world.launcher.die()
    world.tick()
    session.refresh_from_db()
    assert (session.address, session.gateway_port) == ("", None)


def test_a_port_that_the_runtime_does_not_listen_on_gets_no_request_and_the_runtime_is_replaced(
    world, project
):
    session = world.session(project)
    world.launcher.others = {5432}
    world.tick()
    beat = READY.model_copy(update={"address": "127.0.0.1:5432"})
    world.tick(20, beat=beat)
    session.refresh_from_db()
    assert (session.state, session.address) == (SessionState.READY, "")
    world.tick(15, beat=beat)
    assert "port 5432" in why_queued(session)
