"""Deleting a session that has ended: its rows at once, its bytes soon after. What it used stays on the bill."""

import logging
import shutil

from django.conf import settings
from django.db import transaction

from console.errors import Conflict, StorageUnavailable
from console.live.services import events_delete
from console.sessions import storage
from console.sessions.models import Removal
from console.sessions.selectors import session_get
from console.users.models import Project
from tinkerscript.wire.sessions import SessionState

log = logging.getLogger(__name__)


def session_delete(*, project: Project, session_id: str) -> None:
    """Remove the session, its record and its checkpoints. Raises NotFound, Conflict while it runs.

    A row remembers that its bytes are still to go, so that a kill or a store that is away leaves nothing behind.
    """
    session = session_get(project=project, session_id=session_id)
    if not SessionState(session.state).is_terminal or session.launch_handle:
        raise Conflict(
            f"The session is {session.state}: only one that has ended can be deleted.",
            hint="Stop it, and delete it once it has stopped.",
            details={"state": session.state},
        )
    with transaction.atomic():
        Removal.objects.create(session_id=session.id)
        events_delete(session_id=session.id)
        session.delete()


def removals_finish() -> None:
    """Remove the bytes of deleted sessions; what the store does not take is tried again at the next call."""
    for removal in Removal.objects.order_by("created_at"):
        try:
            storage.delete_under(f"sessions/{removal.session_id}/")
        except StorageUnavailable as away:
            log.warning("the bytes of %s could not be removed yet: %s", removal.session_id, away)
            return
        shutil.rmtree(settings.DATA / "runtimes" / removal.session_id, ignore_errors=True)
        removal.delete()
