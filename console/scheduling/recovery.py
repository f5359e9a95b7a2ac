"""What becomes of a session whose runtime ended or could not be started: it is launched again, or
it has failed.
"""

import logging
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from console.errors import Conflict
from console.live.models import EventRecord
from console.scheduling import failures
from console.scheduling.launchers.launch import runtime_handle
from console.scheduling.launchers.protocol import Launcher
from console.scheduling.logs import ends_kept, log_keep, log_read
from console.sessions.models import Session
from console.sessions.raised_alerts import alert_raise
from console.sessions.states import Actor
from console.sessions.transitions import session_move
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.runtime import PHASE_PREEMPTED
from tinkerscript.wire.sessions import SessionState

log = logging.getLogger(__name__)

SAME_FAULTS = 3
PASSING = ("storage_unavailable", "store_full")  # what another server may cure meanwhile


def move(session: Session, target: SessionState, *, reason: str, **fields: Any) -> None:
    """Move it from the state in which it was read. Raises Conflict when it is in another by now."""
    session_move(
        session_id=session.id,
        source=SessionState(session.state),
        target=target,
        actor=Actor.RECONCILER,
        reason=reason,
        **fields,
    )


def runtime_end(session: Session, *, launcher: Launcher, grace_s: float) -> list[str]:
    """End its runtime; returns the last lines that it wrote, which are kept. Raises SlowToEnd,
    LauncherUnavailable.
    """
    lines = runtime_stop(session, launcher=launcher, grace_s=grace_s)
    runtime_log_keep(session, lines)
    return lines


def runtime_stop(session: Session, *, launcher: Launcher, grace_s: float) -> list[str]:
    """The same without the database, which is one thread's."""
    lines = log_read(session, launcher)
    launcher.stop(runtime_handle(session), grace_s=grace_s)
    return lines


def runtime_log_keep(session: Session, lines: list[str]) -> None:
    """Keep the last lines of its runtime, which has ended."""
    log_keep(session_id=session.id, launch=runtime_handle(session)["launch"], lines=lines)


def requeue(session: Session, reason: str, restarts: int, since: datetime | None = None) -> None:
    """Queue it again, with a place as of ``since``."""
    fields: dict[str, Any] = {} if since is None else {"state_since": since}
    move(
        session, SessionState.QUEUED, reason=reason, restarts=restarts, launch_handle=None, **fields
    )


def recover(session: Session, cause: str, kind: str, *, launcher: Launcher) -> None:
    """Kill what is left and launch again, or give up when it keeps dying without a completed
    step.
    """
    # its last heartbeat may have come after this tick read it
    session.refresh_from_db(fields=["phase"])
    preempted = session.phase.startswith(PHASE_PREEMPTED)
    # before it is counted: what is slow comes here again
    lines = runtime_end(session, launcher=launcher, grace_s=0)
    failures.restart_count(cause="preempted" if preempted else kind)
    log.warning("%s: %s", session.id, cause, extra={"session_id": session.id})
    if preempted:  # however often machines are taken away, the session itself did not fail
        requeue(session, f"its machine was taken away: {cause}", session.restarts)
        return
    fault = last_fault(session)
    again = repeats(session) if fault else dies_alike(session)
    if session.restarts < settings.MAX_RESTARTS and not again:
        requeue(session, cause, session.restarts + 1)
        if kind != "stuck":  # which is an alert of its own
            text = f"Its runtime is started again: {fault['cause'] if fault else cause}"
            alert_raise(
                session=session, rule=AlertRule.RESTARTED, text=text, hint=fault.get("hint", "")
            )
        return
    failure = failures.runtime_lost(
        cause=cause, fault=fault, restarts=session.restarts, lines=lines
    )
    move(session, SessionState.FAILED, reason=cause, failure=failure, launch_handle=None)


def was_ready(session: Session) -> bool:
    """Whether a runtime of it has ever served."""
    record = EventRecord.objects.filter(session_id=session.id, kind=EventKind.STATE)
    return record.filter(data__to=SessionState.READY).exists()


def repeats(session: Session) -> bool:
    """Whether its last ``SAME_FAULTS`` runtimes ended before they were ready, for the same cause:
    so would the next.
    """
    record = EventRecord.objects.filter(session_id=session.id).order_by("-id")
    ready = record.filter(kind=EventKind.STATE, data__to=SessionState.READY).values_list(
        "id", flat=True
    )[:1]
    faults = record.filter(kind=EventKind.EVENT, data__name="runtime_fault", id__gt=[*ready, 0][0])
    last = [
        (str(data.get("code")), str(data.get("cause")))
        for data in faults.values_list("data", flat=True)[:SAME_FAULTS]
    ]
    return len(last) == SAME_FAULTS and len(set(last)) == 1 and last[0][0] not in PASSING


def dies_alike(session: Session) -> bool:
    """Whether its last ``SAME_FAULTS`` runtimes ended before they were ready, reported no cause,
    and wrote the same last line, word for word.
    """
    record = EventRecord.objects.filter(session_id=session.id).order_by("-id")
    states = list(
        record.filter(
            kind=EventKind.STATE, data__to__in=(SessionState.READY, SessionState.PROVISIONING)
        ).values_list("data__to", flat=True)[:SAME_FAULTS]
    )
    if states != [SessionState.PROVISIONING] * SAME_FAULTS:
        return False
    last = [failures.last_line(lines) for lines in ends_kept(session.id, SAME_FAULTS)]
    return len(last) == SAME_FAULTS and bool(last[0]) and len(set(last)) == 1


def last_fault(session: Session) -> dict[str, str]:
    """Cause and hint of the end of the session's last runtime, as that one reported them.

    Empty where it gave no cause. A runtime may report anything: what comes of it is text.
    """
    record = EventRecord.objects.filter(session_id=session.id).order_by("-id")
    began = record.filter(kind=EventKind.STATE, data__to=SessionState.PROVISIONING).values_list(
        "id", flat=True
    )[:1]
    told = record.filter(kind=EventKind.EVENT, data__name="runtime_fault", id__gt=[*began, 0][0])
    data = told.values_list("data", flat=True).first() or {}
    if not (cause := data.get("cause")):
        return {}
    return {"cause": str(cause), "hint": str(data.get("hint") or "")}


def unended_give_up(session_id: str, said: str, lasted: timedelta) -> None:
    """End a session whose runtime was killed and has not ended for ``lasted``, so that its place is
    another's.

    A launch handle stays in its row: the runtime is tried again, and keeps its devices, until it is
    gone.
    """
    session = Session.objects.filter(id=session_id).first()
    if session is None or SessionState(session.state).is_terminal:
        return
    failure = failures.runtime_unended(said=said, lasted_s=lasted.total_seconds())
    with suppress(Conflict):  # it moved after all
        if session.state == SessionState.STOPPING:
            move(session, SessionState.STOPPED, reason=failure["cause"])
        else:
            move(session, SessionState.FAILED, reason=failure["cause"], failure=failure)
