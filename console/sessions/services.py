"""What users do with sessions: create, stop, suspend, wake."""

from django.db import transaction
from django.utils import timezone

from console.errors import Conflict
from console.live.services import event_record
from console.sessions.models import Session
from console.sessions.moves import session_move
from console.sessions.plan import session_plan
from console.sessions.quotas import session_quota_check
from console.sessions.selectors import session_get
from console.sessions.states import ENDED, Actor
from console.users.models import ApiKey, Project
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionCreate, SessionState

__all__ = ["session_create", "session_move", "session_resume", "session_stop", "session_suspend", "session_wake"]


def session_create(*, project: Project, body: SessionCreate, key: ApiKey | None = None) -> Session:
    """A queued session, started with ``key`` (None: by a person in the console).

    Raises what ``session_plan`` raises, and QuotaExceeded.
    """
    plan = session_plan(body=body, key=key)
    with transaction.atomic():
        session_quota_check(project=project)
        session = Session.objects.create(
            project=project,
            key=key,
            name=body.name,
            base_model=body.base_model,
            config=plan.config.model_dump(mode="json"),
            priority=body.priority,
            budget=body.budget.model_dump(exclude_none=True),
        )
        event_record(
            session_id=session.id,
            kind=EventKind.STATE,
            data={"from": None, "to": SessionState.QUEUED, "phase": "", "reason": "created"},
        )
    return session


def session_stop(*, project: Project, session_id: str) -> Session:
    """Ask for the end of a session; asking again changes nothing. Raises NotFound.

    Without a runtime it ends now. A running one is told to finish, and ends when its process has.
    """
    at_once = {SessionState.QUEUED: SessionState.CANCELLED, SessionState.SUSPENDED: SessionState.STOPPED}
    session = session_get(project=project, session_id=session_id)
    state = SessionState(session.state)
    while not state.is_terminal and state != SessionState.STOPPING:
        try:
            if state in at_once:
                session_move(
                    session_id=session_id,
                    source=state,
                    target=at_once[state],
                    actor=Actor.USER,
                    reason="stopped by the user",
                    desired="stop",
                )
            elif _desire(session, "stop"):
                break
        except Conflict:
            # it moved between our look and our move: look again
            pass
        session.refresh_from_db()
        state = SessionState(session.state)
    session.refresh_from_db()
    return session


def session_suspend(*, project: Project, session_id: str) -> Session:
    """Free the runtime of a ready session: it saves its state and ends; a request or ``resume`` brings it back.

    Asking again changes nothing. Raises NotFound, Conflict when it is not ready or is to stop.
    """
    session = session_get(project=project, session_id=session_id)
    if session.state == SessionState.SUSPENDED:
        return session
    if session.state != SessionState.READY or session.desired == "stop" or not _desire(session, "suspend"):
        raise Conflict(
            f"The session is {session.state}: only a ready one can be suspended.",
            hint="Wait until it is ready, or stop it.",
            details={"state": session.state},
        )
    session.refresh_from_db()
    return session


def session_resume(*, project: Project, session_id: str) -> Session:
    """Bring a suspended session back; one that runs or waits stays as it is. Raises NotFound, Conflict if it ended."""
    session = session_get(project=project, session_id=session_id)
    if session.state in ENDED or session.state == SessionState.STOPPING:
        raise Conflict(
            f"The session is {session.state}: it cannot go on.",
            hint="Start a new session; committed checkpoints of this one can still be downloaded.",
            details={"state": session.state},
        )
    return session_wake(session=session)


def session_wake(*, session: Session) -> Session:
    """Bring back a session that was suspended for being idle, or was about to be. Others are left as they are."""
    try:
        if session.state == SessionState.SUSPENDED:
            session_move(
                session_id=session.id,
                source=SessionState.SUSPENDED,
                target=SessionState.QUEUED,
                actor=Actor.USER,
                reason="woken by a request",
                desired="run",
                state_since=session.created_at,  # it gave its place up: who came later comes later
            )
        elif session.desired == "suspend":
            Session.objects.filter(id=session.id, state=session.state, desired="suspend").update(
                desired="run", last_activity_at=timezone.now()
            )
    except Conflict:
        # somebody else woke or stopped it first: what it is now is what counts
        pass
    session.refresh_from_db()
    return session


def _desire(session: Session, desired: str) -> bool:
    """Say what is wanted of a running session; False when its state changed meanwhile."""
    with transaction.atomic():
        row = Session.objects.filter(id=session.id, state=session.state)
        if row.filter(desired=desired).exists():
            return True
        if row.update(desired=desired, updated_at=timezone.now()) != 1:
            return False
        event_record(
            session_id=session.id, kind=EventKind.EVENT, data={"name": f"{desired}_requested", "state": session.state}
        )
    return True
