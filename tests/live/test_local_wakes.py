"""A thread that looks now and then is woken by another process, and by nothing else."""

import os
import subprocess
import sys
import threading
import time

import pytest

from console.live import local_wakes
from console.live.local_wakes import LAYER_IS_SHARED, RECONCILERS, Pause
from console.sessions import services
from console.sessions.runtime import leases
from support import factories
from tinkerscript.wire.runtime import RuntimeStage, RuntimeState
from tinkerscript.wire.sessions import SessionCreate, SessionState

LONG_S = 60.0
pytestmark = pytest.mark.skipif(
    LAYER_IS_SHARED, reason="with Redis the reconciler looks at its own times alone"
)


@pytest.fixture
def pause(monkeypatch, settings):
    """Of what is another process to those who write here."""
    with monkeypatch.context() as patched:
        patched.setattr(local_wakes, "_own", lambda: "another-")
        found = Pause(RECONCILERS)
    yield found
    found.close()
    assert not list((settings.DATA / "run" / "live" / RECONCILERS).iterdir())


def waited_s(pause: Pause, least_s: float) -> float:
    began = time.monotonic()
    pause.wait(least_s, LONG_S)
    return time.monotonic() - began


@pytest.mark.system
def test_another_process_ends_a_pause(pause: Pause, settings) -> None:
    program = f"from console.live.local_wakes import readers_wake; readers_wake({RECONCILERS!r})"
    environment = os.environ | {
        "TINKERSCRIPT_DATA": str(settings.DATA),
        "DJANGO_SETTINGS_MODULE": "console.settings",
    }
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    assert waited_s(pause, 0) < LONG_S / 2


def test_a_pause_that_is_woken_early_is_as_long_as_its_least(pause: Pause) -> None:
    local_wakes.readers_wake(RECONCILERS)
    local_wakes.readers_wake(RECONCILERS)
    assert 0.2 <= waited_s(pause, 0.2) < LONG_S / 2
    began = time.monotonic()
    pause.wait(0, 0.2)  # both were heard
    assert time.monotonic() - began >= 0.2


def test_the_end_is_not_waited_for(pause: Pause) -> None:
    threading.Timer(0.05, pause.end).start()
    assert waited_s(pause, LONG_S) < LONG_S / 2 and pause.is_over
    assert waited_s(pause, LONG_S) < LONG_S / 2, "nor any later pause"


def test_a_session_that_is_queued_and_one_that_is_woken_are_told_of(
    pause: Pause, project, db, django_capture_on_commit_callbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        session = services.session_create(
            project=project, body=SessionCreate(base_model=factories.BASE_MODEL)
        )
    assert waited_s(pause, 0) < LONG_S / 2
    type(session).objects.filter(id=session.id).update(state="suspended", desired="suspend")
    session.refresh_from_db()
    with django_capture_on_commit_callbacks(execute=True):
        services.session_wake(session=session)
    assert session.state == "queued" and waited_s(pause, 0) < LONG_S / 2


def test_a_runtime_that_serves_is_told_of_once_since_the_reconciler_finds_its_address(
    pause: Pause, project, db, django_capture_on_commit_callbacks
) -> None:
    session, _ = factories.runtime_make(project, SessionState.LOADING)
    serves = RuntimeState(
        state=RuntimeStage.READY, phase="waiting", progress=1, address="127.0.0.1:7000"
    )
    with django_capture_on_commit_callbacks(execute=True):
        leases.runtime_heartbeat(session=session, body=serves)
    assert waited_s(pause, 0) < LONG_S / 2
    session.refresh_from_db()
    with django_capture_on_commit_callbacks(execute=True):
        leases.runtime_heartbeat(session=session, body=serves)
    began = time.monotonic()
    pause.wait(0, 0.2)
    assert time.monotonic() - began >= 0.2, "not by every heartbeat"
