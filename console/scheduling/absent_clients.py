"""Tinker clients that stay away while other sessions wait for a place: their runtimes give way to
those.

They are suspended as idle ones are: models and states are kept, and the next request of the client
wakes them. A client that never comes back is over after ``console.tinker.services.VANISHED_S``.
"""

from datetime import datetime, timedelta

from django.db.models import Q

from console.scheduling import liveness
from console.scheduling.session_notes import suspend_request
from console.sessions.limits.queue import queue_places, queue_waiting
from console.sessions.models import Session
from console.sessions.states import Desired
from console.tinker.models import TinkerRuntime
from tinkerscript.wire.config import HERE
from tinkerscript.wire.sessions import SessionState

ABSENT_S = 60.0  # a client sends a heartbeat every 10 s


def absent_clients_give_way(*, now: datetime, judging_since: datetime) -> None:
    """Ask as many of them to suspend themselves as sessions wait that could start, the longest
    absent first.

    Call it after those for which there is room were started. Silence before ``judging_since`` is
    this server's own.
    """
    before = now - timedelta(seconds=ABSENT_S)
    if judging_since > before:
        return
    served = TinkerRuntime.objects.filter(
        session__state=SessionState.READY,
        session__desired=Desired.RUN,
        tinker_session__finished__isnull=True,
        session__place=HERE,
    )
    # one client that is there keeps the runtime that it shares
    present = served.filter(
        Q(tinker_session__is_of_endpoints=True) | Q(tinker_session__heartbeat_at__gte=before)
    )
    absent = served.exclude(session__in=present.values("session_id"))
    absent = absent.exclude(session__last_activity_at__gte=before)
    by_session = {
        row.session_id: row
        for row in absent.select_related("session", "tinker_session").order_by(
            "tinker_session__heartbeat_at"
        )
    }  # of each the last that was heard
    rows = sorted(by_session.values(), key=lambda row: row.tinker_session.heartbeat_at)
    for row in rows[: _places_wanted(now)] if rows else ():
        silent_s = (now - row.tinker_session.heartbeat_at).total_seconds()
        reason = (
            f"its client has sent no heartbeat for {silent_s:.0f} s, and other sessions wait "
            "for a place"
        )
        suspend_request(row.session, reason)


def _places_wanted(now: datetime) -> int:
    """How many sessions wait for what others have, less those that are on their way out already."""
    # what a client of the Tinker wire has is no cluster's
    here = Session.objects.filter(place=HERE)
    restarted = here.filter(state=SessionState.QUEUED, restarts__gt=1).only(
        "state_since", "restarts"
    )
    later = queue_places(
        session.id for session in restarted if now < liveness.restart_not_before(session)
    )
    could_start = queue_waiting() - sum(not is_held for _, is_held in later.values())
    leaving = here.filter(state=SessionState.READY, desired=Desired.SUSPEND).count()
    leaving += here.filter(state=SessionState.STOPPING).count()
    return max(0, could_start - leaving)
