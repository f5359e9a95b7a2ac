"""What becomes of a session whose runtime ended or could not be started: it is launched again, or
it has failed. Then its record says so with a code, what happened, and what to do.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F, QuerySet

from console.errors import Conflict, InvalidRequest, UnknownBaseModel
from console.live.models import EventRecord
from console.scheduling.launch import runtime_handle
from console.scheduling.launchers.protocol import Launcher
from console.scheduling.logs import ends_kept, log_keep, log_read
from console.scheduling.models import RestartCount
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
LOG_LINES = 40
GO_ON = (
    "start a new session, from its last state if it has one: that checkpoint's id is given as "
    "base_model."
)
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
    restart_count(cause="preempted" if preempted else kind)
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
    failure = runtime_lost(cause=cause, fault=fault, restarts=session.restarts, lines=lines)
    move(session, SessionState.FAILED, reason=cause, failure=failure, launch_handle=None)


def restart_count(*, cause: str) -> None:
    """Count a runtime that is started again. ``cause``: exited, stuck, preempted, or
    not_started.
    """
    RestartCount.objects.get_or_create(cause=cause)
    RestartCount.objects.filter(cause=cause).update(total=F("total") + 1)


def was_ready(session: Session) -> bool:
    """Whether a runtime of it has ever served."""
    record = EventRecord.objects.filter(session_id=session.id, kind=EventKind.STATE)
    return record.filter(data__to=SessionState.READY).exists()


def repeats(session: Session) -> bool:
    """Whether its last ``SAME_FAULTS`` runtimes ended before they were ready, for the same cause:
    so would the next.
    """
    faults = _faults_since(session, SessionState.READY)[:SAME_FAULTS]
    last = [(str(data.get("code")), str(data.get("cause"))) for data in faults]
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
    last = [last_line(lines) for lines in ends_kept(session.id, SAME_FAULTS)]
    return len(last) == SAME_FAULTS and bool(last[0]) and len(set(last)) == 1


def last_fault(session: Session) -> dict[str, str]:
    """Cause and hint of the end of the session's last runtime, as that one reported them.

    Empty where it gave no cause. A runtime may report anything: what comes of it is text.
    """
    data = _faults_since(session, SessionState.PROVISIONING).first() or {}
    if not (cause := data.get("cause")):
        return {}
    return {"cause": str(cause), "hint": str(data.get("hint") or "")}


def _faults_since(session: Session, state: SessionState) -> QuerySet[EventRecord, dict[str, Any]]:
    """What its runtimes reported of their ends since it last came to this state, the newest
    first.
    """
    record = EventRecord.objects.filter(session_id=session.id).order_by("-id")
    moves = record.filter(kind=EventKind.STATE, data__to=state)
    began = moves.values_list("id", flat=True).first() or 0
    faults = record.filter(kind=EventKind.EVENT, data__name="runtime_fault", id__gt=began)
    return faults.values_list("data", flat=True)


def unended_give_up(session_id: str, said: str, lasted: timedelta) -> None:
    """End a session whose runtime was killed and has not ended for ``lasted``, so that its place is
    another's.

    A launch handle stays in its row: the runtime is tried again, and keeps its devices, until it is
    gone.
    """
    session = Session.objects.filter(id=session_id).first()
    if session is None or SessionState(session.state).is_terminal:
        return
    failure = runtime_unended(said=said, lasted_s=lasted.total_seconds())
    with suppress(Conflict):  # it moved after all
        if session.state == SessionState.STOPPING:
            move(session, SessionState.STOPPED, reason=failure["cause"])
        else:
            move(session, SessionState.FAILED, reason=failure["cause"], failure=failure)


# -- What the record of one that has failed says ---------------------------------------------------


def runtime_lost(
    *, cause: str, fault: Mapping[str, str], restarts: int, lines: Sequence[str]
) -> dict[str, Any]:
    """Its runtimes kept ending without a completed step.

    ``fault``: why the last one ended, as it reported that itself; ``lines``: those that it wrote.
    """
    last = last_line(lines)
    own = f"{last.rstrip('.')} ({cause})" if last else cause
    why = fault["cause"].rstrip(".") if fault else own
    go_on = f"Once the cause is gone, {GO_ON}"
    return {
        "code": "runtime_lost",
        "cause": f"{why}, after {restarts} restarts without a completed step.",
        "hint": f"{(fault.get('hint') or 'Read the last lines of the log.').rstrip('.')}. {go_on}",
        "log": list(lines[-LOG_LINES:]),
    }


def last_line(lines: Sequence[str]) -> str:
    """What a runtime wrote last, without the time and the place of a line of its log; empty where
    it wrote nothing.
    """
    line = next((line.strip() for line in reversed(lines) if line.strip()), "")
    try:
        entry = json.loads(line) if line.startswith("{") else None
    except ValueError:
        entry = None
    message = entry.get("message") if isinstance(entry, dict) else None
    return message.strip() if isinstance(message, str) else line


def runtime_unended(*, said: str, lasted_s: float) -> dict[str, str]:
    """Its runtime, or an earlier one of it, was killed and is still there: another session gets its
    place.
    """
    return {
        "code": "runtime_unended",
        "cause": f"Its runtime was killed and has not ended for {lasted_s:.0f} s: {said}",
        "hint": f"Whoever runs the server ends it on its machine. Meanwhile {GO_ON}",
    }


def model_gone(error: UnknownBaseModel | InvalidRequest) -> dict[str, str]:
    """The base model of a session that has not run yet was taken from the server after the session
    was asked for.
    """
    return {"code": "model_gone", "cause": str(error), "hint": error.hint}


def disk_full(*, free_bytes: int, needed: str) -> dict[str, str]:
    """A new session has no room where runtimes keep their state."""
    return {
        "code": "disk_full",
        "cause": f"{free_bytes >> 20} MiB are free where runtimes keep their state, {needed} "
        "needed to start one.",
        "hint": f"Free space on the disk of {settings.DATA}, then start a new session.",
    }
