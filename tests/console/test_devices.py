"""Eight sessions on one server: every one has devices of its own, whatever is killed, restarted or
adopted.
"""

import secrets
import sys
import threading
from pathlib import Path

import pytest
from django.db import connection, connections

from console.catalogue.memory_estimate import ModelShape
from console.errors import DoesNotFit, InvalidRequest, QuotaExceeded
from console.live.models import EventRecord
from console.scheduling import processes
from console.scheduling.launchers import process as process_module
from console.scheduling.launchers.options import LAUNCHERS, LauncherOptions
from console.scheduling.launchers.process import ProcessLauncher
from console.scheduling.launchers.protocol import Resources, RuntimeStatus
from console.scheduling.models import RestartCount
from console.scheduling.processes import wait_until
from console.scheduling.reconcile import Reconciler
from console.sessions import dry_run
from console.sessions.limits import devices as device_limits
from console.sessions.limits.devices import (
    FOR_CPUS,
    Device,
    DevicesShort,
    device_bytes,
    devices_release,
    devices_sync,
    devices_take,
)
from console.sessions.models import Session
from console.sessions.services import session_create, session_resume, session_stop
from console.users.models import Project
from support import factories
from support.reconciler_world import GIB, World
from tinkerscript.wire.config import HERE, SessionConfig
from tinkerscript.wire.sessions import SessionCreate, SessionKind, SessionState

EIGHT = [str(index) for index in range(8)]
SAY_DEVICES = "import os, time; print(os.environ.get('CUDA_VISIBLE_DEVICES', 'all'), flush=True); time.sleep(120)"


@pytest.fixture
def machine(settings):
    """A machine of eight devices on which eight sessions of one device each may run."""
    settings.MAX_RUNTIMES = 8
    settings.LAUNCHER = LauncherOptions(name="process", resources=Resources(gpus=1))
    return settings


@pytest.fixture
def world(db, machine, monkeypatch):
    devices_sync(ids=EIGHT)  # as `up` does before anybody can ask for one
    world = World(devices=EIGHT)
    monkeypatch.setattr("django.utils.timezone.now", lambda: world.now)
    return world


def held() -> dict[str, set[str]]:
    """The devices of each session that has some."""
    found: dict[str, set[str]] = {}
    for device in Device.objects.filter(session__isnull=False):
        found.setdefault(device.session_id, set()).add(device.id)
    return found


@pytest.mark.system
def test_eight_sessions_as_processes_see_eight_different_devices(
    project, machine, tmp_path, transactional_db
) -> None:
    devices_sync(ids=EIGHT)
    launcher = ProcessLauncher([sys.executable, "-c", SAY_DEVICES])
    reconciler = Reconciler(launcher, devices=EIGHT, disk_free=lambda: 100 * GIB)
    sessions = [factories.session_make(project) for _ in range(8)]
    machine.DATA = tmp_path
    (tmp_path / "models" / factories.BASE_MODEL).mkdir(parents=True)
    handles = []
    try:
        assert reconciler.reconcile_once()
        handles = [Session.objects.get(id=session.id).launch_handle for session in sessions]
        assert wait_until(
            lambda: all(launcher.logs(handle, lines=1) for handle in handles), timeout_s=60
        )
        assert sorted(launcher.logs(handle, lines=1)[0] for handle in handles) == EIGHT
    finally:
        for handle in handles:
            launcher.stop(handle, grace_s=0)
        reconciler.close()


def test_devices_are_disjoint_and_as_many_as_asked_for(world, project) -> None:
    for count in (1, 2, 4, 1):
        world.session(project, devices=count)
    world.tick()
    assert sorted(len(ids) for ids in held().values()) == [1, 1, 2, 4]
    assert sorted(id for ids in held().values() for id in ids) == EIGHT


def test_a_session_that_does_not_fit_waits_gives_the_reason_and_is_not_overtaken(
    world, project, bob
) -> None:
    large, larger = world.session(project, devices=6), world.session(project, devices=4)
    small = world.session(project)
    world.tick()
    for session in (large, larger, small):
        session.refresh_from_db()
    assert [large.state, larger.state, small.state] == ["provisioning", "queued", "queued"]
    assert larger.phase == "waits for 4 devices: 2 of this server's 8 are free"
    session_stop(project=project, session_id=large.id)
    world.launcher.die()
    world.tick(2)
    assert {session_id: len(ids) for session_id, ids in held().items()} == {
        larger.id: 4,
        small.id: 1,
    }


def test_a_runtime_that_died_keeps_its_devices_until_it_is_known_to_be_gone(world, project) -> None:
    sessions = [world.session(project) for _ in range(8)]
    world.tick()
    before = held()
    assert len(before) == 8
    world.launcher.away = True
    world.tick(3)
    assert held() == before
    world.launcher.away = False
    world.launcher.die()
    world.tick(3)
    assert sorted(id for ids in held().values() for id in ids) == EIGHT
    assert {len(ids) for ids in held().values()} == {1} and len(held()) == len(sessions)


@pytest.mark.system
def test_a_runtime_that_is_slow_to_die_keeps_its_devices_and_is_counted_once(
    project, machine, tmp_path, transactional_db, monkeypatch
) -> None:
    devices_sync(ids=["0"])
    launcher = ProcessLauncher([sys.executable, "-c", SAY_DEVICES])
    reconciler = Reconciler(launcher, devices=["0"], disk_free=lambda: 100 * GIB)
    monkeypatch.setattr(process_module, "KILL_WAIT_S", 0.1)
    session = factories.session_make(project, config=SessionConfig(devices=1))
    machine.DATA = tmp_path
    (tmp_path / "models" / factories.BASE_MODEL).mkdir(parents=True)
    try:
        assert reconciler.reconcile_once()
        # Its leader is gone, and what it started lives on: a signal has no effect for a while.
        monkeypatch.setattr(launcher, "inspect", lambda _: RuntimeStatus("exited", -9))
        with monkeypatch.context() as patch:
            patch.setattr(processes, "signal_send", lambda *_: True)
            for _ in range(3):
                assert reconciler.reconcile_once()
                assert held() == {session.id: {"0"}} and not RestartCount.objects.exists()
        assert wait_until(
            lambda: reconciler.reconcile_once() and RestartCount.objects.exists(), timeout_s=60
        )
        assert RestartCount.objects.get().total == 1
    finally:
        # a full machine needs longer than the tenth above
        monkeypatch.setattr(process_module, "KILL_WAIT_S", 60.0)
        reconciler.release_all(grace_s=0)
        reconciler.close()


def test_a_successor_of_a_killed_reconciler_knows_who_has_what(world, project) -> None:
    sessions = [world.session(project) for _ in range(4)]
    world.tick()
    before = held()
    handles = [Session.objects.get(id=session.id).launch_handle for session in sessions]
    assert [set(handle["devices"]) for handle in handles] == [
        before[session.id] for session in sessions
    ]
    world.reconciler.close()  # its row alone: nothing was released
    world.reconciler = world.another()
    later = [world.session(project) for _ in range(5)]
    world.tick()
    after = held()
    assert {session_id: after[session_id] for session_id in before} == before
    assert sorted(id for ids in after.values() for id in ids) == EIGHT
    later[-1].refresh_from_db()
    assert later[-1].state == SessionState.QUEUED


def test_a_launch_that_the_reconciler_did_not_live_to_see_has_its_devices(
    world, project, monkeypatch
) -> None:
    """The kill comes between the row and the start: the successor finds the runtime by its handle,
    and its devices.
    """
    session = world.session(project, devices=3)
    monkeypatch.setattr(world.launcher, "start", lambda *_, **__: (_ for _ in ()).throw(SystemExit))
    with pytest.raises(SystemExit):
        world.tick()
    session.refresh_from_db()
    assert held() == {session.id: set(session.launch_handle["devices"])}
    other = world.session(project, devices=5)
    monkeypatch.undo()
    devices_release(known=EIGHT)
    taken = devices_take(session_id=other.id, count=5, known=EIGHT)
    assert not set(taken) & set(session.launch_handle["devices"])


def test_a_device_that_is_gone_from_the_machine_is_handed_out_no_more(world, project) -> None:
    session = world.session(project)
    world.tick()
    world.reconciler.close()
    world.reconciler = world.another(devices=["6", "7"])
    world.tick()
    assert {device.id for device in Device.objects.all()} == {"0", "6", "7"}, (
        "the one in use stays until it is free"
    )
    session_stop(project=project, session_id=session.id)
    world.launcher.die()
    world.tick(2)
    assert {device.id for device in Device.objects.all()} == {"6", "7"}


def test_two_reconcilers_at_once_hand_no_device_out_twice(
    transactional_db, project, machine
) -> None:
    devices_sync(ids=EIGHT)
    sessions = [factories.session_make(project) for _ in range(10)]
    start, got, short = threading.Barrier(10), [], []

    def take(session_id: str) -> None:
        start.wait(25)
        try:
            got.extend(devices_take(session_id=session_id, count=1, known=EIGHT))
        except DevicesShort:
            short.append(session_id)
        finally:
            connection.close()

    threads = [threading.Thread(target=take, args=(session.id,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    connections.close_all()
    assert sorted(got) == EIGHT and len(short) == 2


def body(**config: object) -> SessionCreate:
    return SessionCreate(base_model=factories.BASE_MODEL, config=SessionConfig(**config))


def test_more_devices_than_the_server_has_are_refused_by_the_options_name(
    db, project, machine
) -> None:
    devices_sync(ids=EIGHT)
    assert session_create(project=project, body=body(devices=8)).devices == 8
    with pytest.raises(InvalidRequest, match="9 devices.*8") as refused:
        session_create(project=project, body=body(devices=9))
    assert refused.value.details["fields"][0]["field"] == "config.devices"
    with pytest.raises(InvalidRequest, match="needs 9 devices") as refused:
        session_create(project=project, body=body(trainer_ranks=8, placement="split"))
    assert refused.value.details["fields"][0]["field"] == "config.trainer_ranks"


def test_a_dry_run_counts_an_engine_on_each_device_that_the_ranks_leave(
    db, project, machine, monkeypatch
) -> None:
    devices_sync(ids=EIGHT)
    monkeypatch.setattr(dry_run, "base_model_shape", lambda model: ModelShape(1_000_000))

    def engines(kind: SessionKind = SessionKind.EPISODES, **config: object) -> int:
        plan = dry_run.dry_run(project=project, body=body(**config), kind=kind)
        assert plan.memory is not None
        return plan.memory.engines

    assert engines(devices=8, trainer_ranks=2) == 6
    assert engines(devices=4, trainer_ranks=4) == 1, "by turns"
    assert engines(devices=4, trainer_ranks=4, placement="shared") == 1
    assert engines(SessionKind.TINKER, devices=8) == engines(SessionKind.SERVING) == engines() == 1


def test_ranks_that_share_rows_are_refused_on_gpus_and_when_one_is_left(
    db, project, machine
) -> None:
    devices_sync(ids=EIGHT)
    shared = {"trainer_ranks": 2, "sequence_parallel": True}
    with pytest.raises(
        InvalidRequest,
        match="sequence_parallel is proven on CPUs alone, and this session has 2 GPUs",
    ):
        session_create(project=project, body=body(**shared))
    machine.LAUNCHER = LauncherOptions(name="process", resources=Resources(gpus=0))
    session = session_create(project=project, body=body(**shared))
    Session.objects.filter(id=session.id).update(state="suspended")
    with pytest.raises(
        InvalidRequest, match="trainer_ranks is 1, and the session has sequence_parallel"
    ):
        session_resume(project=project, session_id=session.id, trainer_ranks=1)


def test_a_session_on_shared_devices_has_one_for_each_rank(db, project, machine) -> None:
    """More would have nothing to do."""
    devices_sync(ids=EIGHT)
    with pytest.raises(InvalidRequest, match="uses 4 devices, and devices is 6"):
        session_create(project=project, body=body(devices=6, trainer_ranks=4, placement="shared"))
    machine.LAUNCHER = LauncherOptions(name="process", resources=Resources(gpus=2))
    assert session_create(project=project, body=body(placement="shared")).devices == 1
    assert session_create(project=project, body=body()).devices == 2


def test_a_gpu_that_is_too_small_is_refused_with_the_bytes_of_each_part(
    db, project, machine, monkeypatch
) -> None:
    devices_sync(ids=EIGHT)
    monkeypatch.setattr(dry_run, "base_model_shape", lambda model: ModelShape(7_000_000_000))
    machine.LAUNCHER = LauncherOptions(
        name="process", resources=Resources(gpus=8, gpu_memory_bytes=80 * GIB)
    )
    told = (
        r"on GPU 2 of 2 \(\d+ bytes: optimizer 78.2, gradients 26.1, weights 13.0, reference 13.0 GiB\), "
        r".* 80.0 GiB there \(8589934"
    )
    with pytest.raises(DoesNotFit, match=told) as refused:
        session_create(project=project, body=body(devices=2))
    assert (
        "set kl_coef to 0, which keeps no reference, or set offload_optimizer" in refused.value.hint
    )
    with pytest.raises(DoesNotFit, match="weights 13.0 GiB") as without:
        session_create(project=project, body=body(devices=2, kl_coef=0.0))
    assert "kl_coef" not in without.value.hint
    places = refused.value.details["memory"]["places"]
    engine, rank, host = (place["available_bytes"] for place in places)
    assert (engine, rank, host) == (int(80 * GIB * 0.92), 80 * GIB, None)
    assert not Session.objects.exists()
    plan = dry_run.dry_run(project=project, body=body(devices=8, trainer_ranks=7, zero_stage=3))
    assert plan.memory is not None and len(plan.memory.places) == 9


def test_fewer_devices_than_the_placement_needs_are_refused(db, project, machine) -> None:
    devices_sync(ids=EIGHT)
    with pytest.raises(InvalidRequest, match="needs 3 devices"):
        session_create(project=project, body=body(devices=2, trainer_ranks=2, placement="split"))
    assert (
        session_create(project=project, body=body(trainer_ranks=2, placement="split")).devices == 3
    )
    assert session_create(project=project, body=body()).devices == 1


@pytest.mark.parametrize(
    ("config", "ranks", "devices"),
    [
        ({"trainer_ranks": 2}, 4, 4),  # followed from the ranks, and does again
        ({"trainer_ranks": 2, "devices": 6}, 4, 6),  # asked for, and holds them
        ({"trainer_ranks": 2, "devices": 6}, 8, 8),  # asked for, and too few
    ],
)
def test_devices_that_were_asked_for_stay_under_other_ranks(
    db, project, machine, config, ranks, devices
) -> None:
    devices_sync(ids=EIGHT)
    session = session_create(project=project, body=body(**config))
    before = session.devices
    Session.objects.filter(id=session.id).update(state="suspended")
    resumed = session_resume(project=project, session_id=session.id, trainer_ranks=ranks)
    assert (resumed.devices, resumed.config["devices"]) == (devices, devices)
    data = EventRecord.objects.get(session_id=session.id, data__name="trainer_ranks").data
    assert (data["devices_from"], data["devices_to"]) == (before, devices)


@pytest.mark.parametrize("name", ["process", "unit"])
def test_what_runs_here_has_the_devices_and_the_engine_of_this_machine(
    db, project, machine, monkeypatch, name
) -> None:
    monkeypatch.setitem(LAUNCHERS, "unit", LAUNCHERS["process"])  # another that runs here
    machine.LAUNCHER = LauncherOptions(name=name, resources=Resources())
    machine.MAX_RUNTIMES = 4
    monkeypatch.setattr(device_limits, "engine_build", lambda: FOR_CPUS)
    with pytest.raises(InvalidRequest, match="have no GPU: here is the engine's build for CPUs"):
        session_create(project=project, body=body(devices=1))
    devices_sync(ids=EIGHT)
    assert session_create(project=project, body=body()).devices == 2, "an equal part"
    driver = {"0,1,2,3,4,5,6,7": 80 * GIB}
    monkeypatch.setattr(device_limits, "gpus_least_bytes", driver.get)
    assert device_bytes(HERE) == 80 * GIB


def test_devices_of_a_server_without_any_are_refused(db, project, settings) -> None:
    assert session_create(project=project, body=body()).devices == 0
    for config in (
        {"devices": 1},
        {"placement": "split"},
        {"placement": "shared"},
        {"offload_optimizer": True},
        {"offload_activations": True, "gradient_checkpointing": True},
    ):
        with pytest.raises(InvalidRequest, match="no GPU"):
            session_create(project=project, body=body(**config))


def test_more_devices_than_the_projects_quota_are_refused_instead_of_waiting_for_ever(
    db, project, machine
) -> None:
    devices_sync(ids=EIGHT)
    Project.objects.filter(id=project.id).update(device_quota=2)
    assert session_create(project=project, body=body(devices=2)).devices == 2
    with pytest.raises(QuotaExceeded, match="2 devices at once.*asks for 3"):
        session_create(project=project, body=body(devices=3))


@pytest.mark.system
def test_a_process_without_devices_sees_none(tmp_path: Path, settings) -> None:
    launcher = ProcessLauncher([sys.executable, "-c", SAY_DEVICES])
    names = {
        "session_id": f"ses_{secrets.token_hex(8)}",
        "instance_id": "0123abcd",
        "folder": tmp_path,
    }
    handle = launcher.new_handle(**names, gpus=0, devices=[])
    handle = launcher.start(handle, environment={})
    try:
        assert wait_until(lambda: launcher.logs(handle, lines=1) != [], timeout_s=30)
        assert launcher.logs(handle, lines=1) == [""]
    finally:
        launcher.stop(handle, grace_s=0)
