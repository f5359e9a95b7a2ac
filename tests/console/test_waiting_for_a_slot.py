"""Runtimes that wait for a slot of their launcher."""

import pytest

from console.live.models import EventRecord
from console.sessions import services
from support.reconciler_world import state_of
from tinkerscript.wire.sessions import SessionState


@pytest.mark.system
def test_a_runtime_that_waits_for_a_slot_is_given_the_time_and_its_user_sees_why(world, project):
    session = world.session(project)
    world.launcher.queue = "Slurm: Priority"
    world.tick(3600, step_s=9)
    assert state_of(session) == SessionState.PROVISIONING
    assert (session.phase, session.restarts) == ("Slurm: Priority", 0)
    assert (
        EventRecord.objects.filter(session_id=session.id, data__phase="Slurm: Priority").count()
        == 1
    )
    world.launcher.queue = ""
    world.tick(890, step_s=9)
    assert session.restarts == 0 and len(world.launcher.alive) == 1
    world.tick(20)
    session.refresh_from_db()
    assert session.restarts == 1


def test_a_runtime_that_waits_for_a_slot_is_ended_when_asked(world, project):
    session = world.session(project)
    world.launcher.queue = "Slurm: Priority"
    world.tick(3)
    services.session_stop(project=project, session_id=session.id)
    world.tick(2)
    assert state_of(session) == SessionState.STOPPED and world.launcher.alive == {}
