"""Ending what has used up its budget."""

from console.live.services import event_record
from console.sessions.models import Session
from console.sessions.services import session_stop
from console.sessions.usage import key_spent_s
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionState

ENDED = [state for state in SessionState if state.is_terminal]


def sessions_over_budget_stop() -> None:
    """Stop, in good order, the sessions of keys that have used their cap."""
    going = Session.objects.exclude(state__in=ENDED).exclude(desired="stop").filter(key__spend_cap_s__isnull=False)
    for session in going.select_related("key", "project"):
        spent_s = key_spent_s(key=session.key)
        if spent_s >= session.key.spend_cap_s:
            data = {"name": "budget_exhausted", "spend_cap_s": session.key.spend_cap_s, "spent_s": spent_s}
            event_record(session_id=session.id, kind=EventKind.EVENT, data=data)
            session_stop(project=session.project, session_id=session.id)
