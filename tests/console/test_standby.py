"""Several reconcilers and several places: one leads all of them, and another follows it."""

from datetime import timedelta

import pytest

from console.errors import Conflict
from console.live.models import EventRecord
from console.scheduling import reconcile
from console.scheduling.launch import runtime_launch
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.places import Place
from console.scheduling.launchers.protocol import Resources
from console.scheduling.leader import LEASE_S, leader_status
from console.scheduling.models import LeaderLease
from console.scheduling.reconcile import Reconciler
from console.sessions.models import Session
from console.users.models import Project
from support.reconciler_world import READY, FakeLauncher, World, state_of
from tinkerscript.wire.config import HERE

CLUSTERS = ("east", "north", "south", "west", "zone")
OPTIONS = LauncherOptions(name="slurm", resources=Resources(memory_bytes=64 << 30, cpus=16))


class Shared(World):
    """Reconcilers of one server, all of which reach every place."""

    def __init__(self) -> None:
        self.clusters = {name: FakeLauncher() for name in CLUSTERS}
        super().__init__()
        self.reconcilers = [self.reconciler]

    def another(self, devices=None) -> Reconciler:
        return Reconciler(self.launcher, elsewhere=self.clusters, disk_free=lambda: self.free)

    def join(self) -> Reconciler:
        self.reconcilers.append(self.another())
        return self.reconcilers[-1]

    def rounds(self, count: int) -> None:
        """A second passes in each; all reconcilers have a tick, as their program does."""
        for _ in range(count):
            self.now += timedelta(seconds=1)
            for reconciler in self.reconcilers:
                reconciler.reconcile_once()

    def leads(self) -> list[bool]:
        """Which of them leads."""
        (holder,) = LeaderLease.objects.filter(expires_at__gt=self.now).values_list(
            "holder", flat=True
        )
        return [reconciler._lead.holder == holder for reconciler in self.reconcilers]  # noqa: SLF001 - its name

    def launchers(self) -> list[FakeLauncher]:
        return [self.launcher, *self.clusters.values()]


@pytest.fixture
def world(db, settings, monkeypatch):
    settings.MAX_RUNTIMES = 2
    settings.PLACES = {name: Place(name, "cpu", 2, OPTIONS) for name in CLUSTERS}
    world = Shared()
    monkeypatch.setattr("django.utils.timezone.now", lambda: world.now)
    return world


def test_one_leads_all_places_and_others_stand_by(world) -> None:
    world.rounds(1)
    world.join()
    world.join()
    world.rounds(8)
    assert world.leads() == [True, False, False] and leader_status() is not None
    assert [each.reconcile_once() for each in world.reconcilers] == [True, False, False]


def test_sessions_of_all_places_start_once_and_none_is_left_waiting(world, project) -> None:
    world.rounds(1)
    world.join()
    sessions = [
        world.session(project, place=place) for place in (HERE, *CLUSTERS) for _ in range(3)
    ]
    world.rounds(8)
    assert world.leads() == [True, False]
    assert [state_of(session) for session in sessions] == [
        "provisioning",
        "provisioning",
        "queued",
    ] * 6
    assert [len(launcher.alive) for launcher in world.launchers()] == [2] * 6
    Session.objects.filter(id__in=[session.id for session in sessions[::3]]).update(desired="stop")
    world.rounds(1)
    for launcher in world.launchers():
        launcher.alive.pop(next(iter(launcher.alive)))
    world.rounds(3)
    assert [state_of(session) for session in sessions] == [
        "stopped",
        "provisioning",
        "provisioning",
    ] * 6
    assert [len(launcher.alive) + len(launcher.stopped) for launcher in world.launchers()] == [
        3
    ] * 6, "one launch each"


def test_one_that_was_lost_is_followed_with_what_runs_in_all_places(world, project) -> None:
    world.rounds(1)
    world.join()
    sessions = [world.session(project, place=place) for place in (HERE, *CLUSTERS)]
    world.rounds(8)
    del world.reconcilers[0]
    late = [world.session(project, place=place) for place in (HERE, *CLUSTERS)]
    world.rounds(8)
    assert [state_of(session) for session in late] == ["queued"] * 6, "the lost one may be alive"
    world.rounds(4)
    assert [state_of(session) for session in late] == ["provisioning"] * 6
    assert all(session.restarts == 0 for session in (*sessions, *late) if state_of(session))
    assert [len(launcher.alive) for launcher in world.launchers()] == [2] * 6 and world.leads() == [
        True
    ]


def test_a_runtime_is_not_blamed_for_the_time_in_which_nobody_led(world, project) -> None:
    world.rounds(1)
    world.join()
    session = world.session(project, place="east")
    world.rounds(1)
    world.launcher.alive |= world.clusters["east"].alive
    world.beat(READY)
    del world.reconcilers[0]
    world.rounds(int(LEASE_S) + 3)
    assert world.leads() == [True] and state_of(session) == "ready" and session.restarts == 0


def test_one_that_stops_is_followed_immediately(world) -> None:
    world.rounds(1)
    world.join()
    world.rounds(1)
    world.reconcilers.pop(0).close()
    world.rounds(1)
    assert world.leads() == [True]
    world.reconcilers.pop().close()
    assert leader_status() is None


def test_a_lead_that_is_lost_in_a_long_tick_is_left_to_its_new_holder(
    world, project, monkeypatch
) -> None:
    sessions = [world.session(project, place="east") for _ in range(2)]
    world.rounds(2)
    looked = []

    def slow(handle, inspect=world.clusters["east"].inspect):
        looked.append(handle["launch"])
        world.now += timedelta(seconds=LEASE_S + 1)
        LeaderLease.objects.update(holder="another", expires_at=world.now + timedelta(seconds=9))
        monkeypatch.setattr(reconcile.time, "monotonic", lambda: 1e9 + len(looked) * LEASE_S)
        return inspect(handle)

    world.clusters["east"].inspect = slow
    world.rounds(1)
    assert len(looked) == 1 and [state_of(session) for session in sessions] == ["provisioning"] * 2


def test_a_place_that_there_is_not_any_more_is_looked_after_by_one(
    world, project, settings
) -> None:
    running, waiting = (world.session(project, place="east") for _ in range(2))
    world.rounds(1)
    world.join()
    world.rounds(6)
    del world.clusters["east"]
    settings.PLACES = {name: place for name, place in settings.PLACES.items() if name != "east"}
    world.reconcilers = [world.another(), world.another()]
    world.rounds(30)
    assert world.leads() == [True, False]
    for session in (running, waiting):
        events = EventRecord.objects.filter(
            session_id=session.id, kind="event", data__name="launcher_away"
        )
        assert len(events) == 1 and "TINKERSCRIPT_PLACES does not name" in events[0].data["reason"]


def test_starts_in_two_places_keep_the_quota_of_a_project(world, project, monkeypatch) -> None:
    """Each found the order before the other's start: by its own, there is a device for its
    session.
    """
    Project.objects.filter(id=project.id).update(device_quota=1)
    here, there = world.session(project), world.session(project, place="east")
    monkeypatch.setattr(reconcile, "queue_next", lambda **_: [here.id, there.id])
    world.rounds(3)
    assert [state_of(session) for session in (here, there)] == ["provisioning", "queued"]
    with pytest.raises(Conflict, match="all the devices"):
        runtime_launch(there, launcher=world.clusters["east"], warm=None, known=(), kept=0)
    assert state_of(there) == "queued" and not world.clusters["east"].alive
    Project.objects.filter(id=project.id).update(device_quota=2)
    world.rounds(1)
    assert state_of(there) == "provisioning"
