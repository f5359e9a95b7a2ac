"""The wait in the queue is told from places that became free, and never where too few did."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from api.presenters import session_list_view, session_view
from console.scheduling.draining import drain_begin, drain_end
from console.sessions.limits.queue_wait import NEWEST, queue_look, seconds_between
from console.sessions.models import RuntimeSpan, Session
from console.users.models import Project
from console.users.selectors import project_get
from support import factories
from tinkerscript.wire.sessions import SessionState

MINUTE = timedelta(minutes=1)


def freed(project: Project, minutes_ago: float, state: SessionState = SessionState.STOPPED, **fields: object) -> None:
    """A session that had a runtime and left its place."""
    at = timezone.now() - minutes_ago * MINUTE
    session = factories.session_make(project, state=state, state_since=at, **fields)
    RuntimeSpan.objects.create(
        project=project, session_id=session.id, lease_sha256=session.id, started_at=at - MINUTE, seen_at=at
    )


def waits(*sessions: Session) -> list[float | None]:
    found = queue_look(sessions)
    return [found[session.id][1] for session in sessions]


def test_the_wait_is_the_position_times_the_mean_time_between_two_places(project, bob) -> None:
    first, second = (factories.session_make(project) for _ in range(2))
    for minutes, state in ((10, SessionState.STOPPED), (25, SessionState.SUSPENDED), (40, SessionState.FAILED)):
        freed(project_get(user=bob), minutes, state)
    assert waits(first, second) == [pytest.approx(20 * 60, abs=5), pytest.approx(40 * 60, abs=5)], "40 min, 2 stretches"
    view = session_view(second)
    assert (view.queue_position, view.queue_wait_s) == (2, pytest.approx(40 * 60, abs=5))
    assert [each.queue_wait_s for each in session_list_view([second, first], None).items] == [
        pytest.approx(minutes * 60, abs=5) for minutes in (40, 20)
    ]


@pytest.mark.system
def test_what_says_nothing_of_the_wait_is_not_counted(project) -> None:
    waiting = factories.session_make(project)
    freed(project, 10)
    freed(project, 20)
    assert waits(waiting) == [None], "two places, one stretch"
    freed(project, 24 * 60 + 5)  # a day ago
    freed(project, 15, SessionState.READY)  # it has its place
    freed(project, 15, SessionState.QUEUED)  # its runtime died: it starts anew in its place
    factories.session_make(project, state=SessionState.FAILED, state_since=timezone.now())  # it never had one
    factories.session_make(project, state=SessionState.CANCELLED, state_since=timezone.now())
    assert waits(waiting)[0] is None
    freed(project, 30)
    assert waits(waiting)[0] is not None


def test_a_busy_server_is_measured_by_its_last_places_and_read_at_a_fixed_cost(project) -> None:
    waiting = factories.session_make(project)
    for number in range(NEWEST):
        freed(project, 1 + number)
    with CaptureQueriesContext(connection) as few:
        (wait,) = waits(waiting)
    assert wait == pytest.approx(NEWEST / (NEWEST - 1) * 60, abs=5)
    for number in range(20):
        freed(project, 300 + 10 * number)
    others = [factories.session_make(project) for _ in range(5)]
    with CaptureQueriesContext(connection) as many:
        assert waits(waiting, *others)[0] == pytest.approx(wait, abs=5), "what was long before does not count"
    assert len(many) == len(few)


def test_a_wait_is_unknown_where_a_place_does_not_help(project, settings) -> None:
    for minutes in (5, 10, 15):
        freed(project, minutes)
    waiting = factories.session_make(project)
    drain_begin()
    assert (session_view(waiting).queue_position, session_view(waiting).queue_wait_s) == (1, None)
    drain_end()
    assert session_view(waiting).queue_wait_s is not None
    large = factories.session_make(project, devices=4)
    assert waits(large) == [None], "no place of its size became free"
    for minutes in (6, 12, 18):
        freed(project, minutes, devices=4)
    assert waits(large)[0] == pytest.approx(2 * 9 * 60, abs=5)
    Project.objects.filter(id=project.id).update(device_quota=0)
    assert waits(waiting) == [None], "its project's quota holds it back"
    Project.objects.filter(id=project.id).update(device_quota=None)
    settings.PLACES = {"far": object()}
    assert waits(waiting) == [None], "each place has a pace of its own"


def test_a_running_session_has_no_wait(project) -> None:
    running = factories.session_make(project, state=SessionState.READY)
    assert queue_look([running]) == {}
    assert (session_view(running).queue_position, session_view(running).queue_wait_s) == (None, None)


def test_the_time_since_the_last_place_counts() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [now - minutes * MINUTE for minutes in (50, 55, 60)]
    assert seconds_between(moments, now) == 30 * 60, "and not five minutes, as the three alone would have it"
    assert seconds_between([now] * 5, now) == pytest.approx(0.25), "all at once: a number, and not none"
