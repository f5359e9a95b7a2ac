"""When a runtime counts as stuck: to the second, by times that are passed in."""

from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings

from console.scheduling.liveness import stuck_cause
from console.sessions.models import Session

BEGAN = datetime(2026, 11, 30, tzinfo=UTC)


def running(state: str, **fields: object) -> Session:
    """A session whose runtime is alive and holds its lease."""
    known = {
        "state_since": BEGAN,
        "progress_at": BEGAN,
        "lease_sha256": "a hash",
        "lease_expires_at": BEGAN + timedelta(days=1),
    }
    return Session(state=state, **known | fields)


def stuck_after(session: Session, seconds: float, *, judged_for: float | None = None) -> str | None:
    """Its cause so long after ``BEGAN``; ``judged_for``: how long the reconciler leads by then."""
    now = BEGAN + timedelta(seconds=seconds)
    since = BEGAN if judged_for is None else now - timedelta(seconds=judged_for)
    return stuck_cause(session, now=now, judging_since=since)


@pytest.mark.parametrize("state", sorted(settings.PROGRESS_DEADLINES_S))
def test_a_runtime_without_progress_is_stuck_once_its_deadline_is_over(state: str) -> None:
    deadline_s = settings.PROGRESS_DEADLINES_S[state]
    assert deadline_s == 900.0
    session = running(state, phase="step 3")
    assert stuck_after(session, deadline_s) is None
    assert stuck_after(session, deadline_s + 1) == (
        f"the runtime made no progress for 900 s while {state} (step 3)"
    )


def test_progress_a_new_state_and_a_new_reconciler_start_the_clock_anew() -> None:
    over_s = settings.PROGRESS_DEADLINES_S["ready"] + 1
    later = BEGAN + timedelta(seconds=2)
    assert stuck_after(running("ready"), over_s) is not None
    assert stuck_after(running("ready", progress_at=later), over_s) is None
    assert stuck_after(running("ready", state_since=later), over_s) is None
    assert stuck_after(running("ready"), over_s, judged_for=over_s - 2) is None


def test_a_runtime_that_falls_silent_is_stuck_after_its_lease_and_a_grace() -> None:
    silent = running("ready", lease_expires_at=BEGAN)
    assert stuck_after(silent, settings.SILENCE_GRACE_S) is None
    cause = stuck_after(silent, settings.SILENCE_GRACE_S + 1)
    assert cause is not None and "heartbeat stayed away" in cause
    assert stuck_after(running("provisioning", lease_expires_at=BEGAN), 100) is None, (
        "it has not registered yet"
    )
