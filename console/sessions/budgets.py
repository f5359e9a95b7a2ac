"""Ending what has used up its own budget or its key's: first a checkpoint, then the stop."""

from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone

from console.live.services import event_record
from console.sessions.checkpoints import checkpoint_order
from console.sessions.models import Checkpoint, Session
from console.sessions.services import session_stop
from console.sessions.states import ENDED
from console.sessions.usage import key_spent_s, session_spent_s
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import Budget, SessionState

CHECKPOINT_WAIT_S = 600.0  # then it stops without one
PENDING = (CheckpointState.REQUESTED, CheckpointState.UPLOADING)


def sessions_over_budget_stop() -> None:
    """Stop, in good order, every session that has used its budget or its key's cap."""
    going = Session.objects.exclude(state__in=ENDED).exclude(desired="stop").select_related("key", "project")
    for session in going.exclude(budget={}, key__spend_cap_s__isnull=True):
        if limit := next(_exhausted(session), None):
            _end(session, *limit)


def _exhausted(session: Session) -> Iterator[tuple[str, float, float]]:
    """The limits that are reached: name, limit, used."""
    budget = Budget.model_validate(session.budget)
    if budget.steps is not None and session.policy_version_high >= budget.steps:
        yield "steps", budget.steps, session.policy_version_high
    if budget.wall_s is not None:
        age_s = (timezone.now() - session.created_at).total_seconds()
        if age_s >= budget.wall_s:
            yield "wall_s", budget.wall_s, age_s
    if budget.device_s is not None and (spent_s := session_spent_s(session=session)) >= budget.device_s:
        yield "device_s", budget.device_s, spent_s
    if session.key and session.key.spend_cap_s is not None:
        spent_s = key_spent_s(key=session.key)
        if spent_s >= session.key.spend_cap_s:
            yield "spend_cap_s", session.key.spend_cap_s, spent_s


def _end(session: Session, limit: str, allowed: float, used: float) -> None:
    data = {"name": "budget_exhausted", "limit": limit, "allowed": allowed, "used": used}
    event_record(session_id=session.id, kind=EventKind.EVENT, data=data, key=f"budget {limit}")  # once
    last = session.checkpoints.filter(kind=CheckpointKind.MODEL).order_by("-created_at").first()
    if session.state == SessionState.READY and not _is_kept(session, last):
        if last is None or last.state not in PENDING:
            checkpoint_order(session=session, kind=CheckpointKind.MODEL)
            return
        if timezone.now() - last.created_at < timedelta(seconds=CHECKPOINT_WAIT_S):
            return
    session_stop(project=session.project, session_id=session.id)


def _is_kept(session: Session, last: Checkpoint | None) -> bool:
    """Whether what the session learned is in a checkpoint, or cannot be put into one."""
    if session.policy_version == 0:
        return True
    if last is None or last.state in PENDING:
        return False
    return last.state == CheckpointState.FAILED or (last.step or 0) >= session.policy_version
