"""One server, three places: each runs its own sessions by its own launcher, and no place waits for
another.
"""

import pytest

from console.errors import InvalidRequest
from console.live.models import EventRecord
from console.scheduling.launchers.choice import OtherLauncher, launchers_elsewhere
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.places import Place
from console.scheduling.launchers.protocol import Resources
from console.scheduling.reconcile import Reconciler
from console.sessions.limits.places import place_list
from console.sessions.models import Session
from support import factories
from support.reconciler_world import FakeLauncher, World, state_of
from tinkerscript.wire.config import SessionConfig

GPUS = LauncherOptions(name="slurm", resources=Resources(memory_bytes=400 << 30, cpus=64, gpus=8))
CPUS = LauncherOptions(name="kubernetes", resources=Resources(memory_bytes=64 << 30, cpus=16))


class WorldOfPlaces(World):
    """The world of the reconciler's tests with two clusters beside it."""

    def another(self, devices=None) -> Reconciler:
        self.clusters = {"lab": FakeLauncher(), "cloud": FakeLauncher()}
        return Reconciler(self.launcher, elsewhere=self.clusters, disk_free=lambda: self.free)


@pytest.fixture
def places(settings):
    settings.MAX_RUNTIMES = 1
    settings.PLACES = {
        "lab": Place("lab", "h100x8", 1, GPUS),
        "cloud": Place("cloud", "cpu", 2, CPUS),
    }
    return settings.PLACES


@pytest.fixture
def world(db, places, monkeypatch):
    world = WorldOfPlaces()
    monkeypatch.setattr("django.utils.timezone.now", lambda: world.now)
    return world


def test_each_place_runs_its_own_sessions_up_to_its_own_number(world, project) -> None:
    asked = ["here", "here", "lab", "lab", "cloud", "cloud", "cloud"]
    sessions = [world.session(project, place=place) for place in asked]
    world.tick(3)
    assert [state_of(session) for session in sessions] == [
        "provisioning", "queued", "provisioning", "queued", "provisioning", "provisioning", "queued",
    ]  # fmt: skip
    assert [len(launcher.alive) for launcher in (world.launcher, *world.clusters.values())] == [
        1,
        1,
        2,
    ]
    assert [(place.name, place.running, place.queued) for place in place_list(project=None)] == [
        ("here", 1, 1), ("lab", 1, 1), ("cloud", 2, 1),
    ]  # fmt: skip
    world.clusters["lab"].die()
    world.tick(2)
    assert state_of(sessions[2]) == "provisioning" and sessions[2].restarts == 1
    assert len(world.clusters["lab"].alive) == 1, (
        "a runtime that was lost is started again at its place"
    )


def test_a_session_has_the_devices_and_the_memory_of_its_place(world, project) -> None:
    here, lab = world.session(project), world.session(project, place="lab")
    assert (here.devices, lab.devices) == (0, 8)
    with pytest.raises(InvalidRequest, match="the runtimes of this server have no GPU"):
        world.session(project, place="cloud", devices=1)


def test_a_kind_is_a_place_of_that_kind_with_the_most_room(world, places, project) -> None:
    places["field"] = Place("field", "cpu", 4, CPUS)
    chosen = [world.session(project, place="cpu").place for _ in range(6)]
    assert sorted(chosen) == ["cloud"] * 2 + ["field"] * 4
    assert all(session.config["place"] == session.place for session in Session.objects.all())


def test_a_place_that_there_is_not_is_refused_with_those_that_there_are(world, project) -> None:
    with pytest.raises(
        InvalidRequest, match=r"this server has here, lab \(h100x8\), cloud \(cpu\)"
    ) as refused:
        world.session(project, place="h200")
    assert refused.value.details["fields"][0]["field"] == "config.place"


def test_a_place_that_is_away_is_named_and_holds_up_no_other(world, project) -> None:
    world.clusters["lab"].away = True
    lab, here = world.session(project, place="lab"), world.session(project)
    world.tick(15)
    assert state_of(here) == "provisioning"
    event = EventRecord.objects.get(session_id=lab.id, data__name="launcher_away")
    assert event.data["reason"] == "place lab: nothing listens there"
    world.clusters["lab"].away = False
    world.tick(3)
    assert state_of(lab) == "provisioning"


def test_nothing_is_started_at_a_place_that_is_away(world, project) -> None:
    """A start there is commands that wait: they are not begun, and its session stays where it was
    in the queue.
    """
    tried: list[str] = []
    lab = world.clusters["lab"]
    lab.start = lambda handle, **_: tried.append(handle["launch"]) or handle
    lab.others_end = lambda handle: tried.append(handle["launch"])
    lab.away = True
    sessions = [world.session(project, place="lab") for _ in range(3)]
    Session.objects.filter(id=sessions[0].id).update(launcher="slurm")  # it ran before
    world.tick(3)
    assert (tried, {state_of(each) for each in sessions}) == ([], {"queued"})
    lab.away = False
    world.tick(1)
    assert len(tried) == 2 and state_of(sessions[0]) == "provisioning"


def test_a_place_that_the_settings_name_no_more_leaves_its_sessions_as_they_are(
    world, places, project
) -> None:
    session, waiting = world.session(project, place="lab"), world.session(project, place="lab")
    world.tick(1)
    del places["lab"], world.clusters["lab"]
    world.reconciler.close()
    world.reconciler = Reconciler(world.launcher, elsewhere={}, disk_free=lambda: world.free)
    world.tick(15)
    assert state_of(session) == "provisioning" and session.launch_handle
    assert state_of(waiting) == "queued"
    for event in (
        EventRecord.objects.get(session_id=each.id, kind="event") for each in (session, waiting)
    ):
        assert event.data["reason"] == "its place is lab, which TINKERSCRIPT_PLACES does not name"


def test_a_place_whose_launcher_was_changed_with_runtimes_there_stops_start_up(
    places, project
) -> None:
    config = SessionConfig(place="lab")
    session = factories.session_make(
        project, config=config, launcher="kubernetes", launch_handle={"launch": "x"}
    )
    with pytest.raises(
        OtherLauncher, match="Place lab has runtimes that the launcher kubernetes started"
    ):
        launchers_elsewhere()
    Session.objects.filter(id=session.id).update(launch_handle=None)
    del places["cloud"]  # of Kubernetes, which is not there
    assert launchers_elsewhere()["lab"].name == "slurm"
