"""What users do with sessions: create, stop, wake."""

from django.db import transaction
from django.utils import timezone

from console.errors import Conflict, InvalidRequest
from console.live.services import event_record
from console.sessions.catalogue import base_model_resolve
from console.sessions.models import Session
from console.sessions.moves import session_move
from console.sessions.selectors import session_get
from console.sessions.states import Actor
from console.sessions.usage import key_budget_check
from console.users.keys import key_model_check
from console.users.models import ApiKey, Project
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionCreate, SessionState

__all__ = ["session_create", "session_move", "session_stop", "session_wake"]


def session_create(*, project: Project, body: SessionCreate, key: ApiKey | None = None) -> Session:
    """A queued session, started with ``key`` (None: by a person in the console).

    Raises UnknownBaseModel, InvalidRequest when lengths do not fit each other or the model, Forbidden and
    BudgetExhausted when the key may not start it.
    """
    key_model_check(key=key, base_model=body.base_model)
    key_budget_check(key=key)
    model = base_model_resolve(body.base_model)
    config = body.config
    if model.context_length and config.max_context_length > model.context_length:
        raise InvalidRequest(
            f"max_context_length is {config.max_context_length}, {model.name} reads at most {model.context_length}.",
            hint="Lower config.max_context_length.",
        )
    if config.max_tokens > config.max_context_length:
        raise InvalidRequest(
            f"max_tokens ({config.max_tokens}) is more than max_context_length ({config.max_context_length}).",
            hint="Lower config.max_tokens or raise config.max_context_length.",
        )
    with transaction.atomic():
        session = Session.objects.create(
            project=project,
            key=key,
            name=body.name,
            base_model=body.base_model,
            config=config.model_dump(mode="json"),
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
