"""A reconciler without work looks seldom, and at new work immediately."""

import time

from console.scheduling import reconcile
from console.scheduling.leader import LEASE_S
from console.scheduling.reconcile import IDLE_S
from support.reconciler_world import state_of
from tinkerscript.wire.sessions import SessionState


def test_an_idle_reconciler_ticks_seldom_and_immediately_for_new_work(world, project, monkeypatch):
    world.tick()
    assert world.reconciler.is_idle and not world.reconciler.is_due()
    clock = time.monotonic() + IDLE_S
    with monkeypatch.context() as patched:
        patched.setattr(reconcile.time, "monotonic", lambda: clock)
        assert world.reconciler.is_due() and IDLE_S < LEASE_S / 2, "it keeps its lead meanwhile"
    session = world.session(project)
    assert world.reconciler.is_due()
    world.tick()
    assert state_of(session) == SessionState.PROVISIONING
    assert not world.reconciler.is_idle and world.reconciler.is_due(), (
        "what runs is looked at in every tick"
    )
