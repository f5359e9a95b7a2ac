"""Deleting: rows at once, bytes soon after. What was used stays on the bill."""

import logging
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from console.errors import Conflict, StorageUnavailable
from console.live.services import event_note
from console.object_store import client as object_store
from console.sessions.checkpoints.checkpoints import (
    checkpoint_get,
    checkpoint_key,
    checkpoint_resume_get,
)
from console.sessions.models import Checkpoint, Removal
from console.sessions.selectors import held_check
from console.sessions.states import UNWRITTEN
from console.users.models import Project
from tinkerscript.wire.sessions import SessionState

log = logging.getLogger(__name__)
WRITING = timedelta(hours=2)  # one object that takes longer is not waited for


def checkpoint_delete(*, project: Project, session_id: str, checkpoint_id: str) -> None:
    """Remove a checkpoint. Raises NotFound, Conflict while it is being written, served or resumed
    from.
    """
    checkpoint = checkpoint_get(project=project, session_id=session_id, checkpoint_id=checkpoint_id)
    if checkpoint.state in UNWRITTEN:
        raise Conflict(
            f"The checkpoint is {checkpoint.state}.",
            hint="Delete it once it is committed, or stop the session.",
        )
    ended = SessionState(checkpoint.session.state).is_terminal
    if not ended and checkpoint == checkpoint_resume_get(session_id=session_id):
        raise Conflict(
            "The session would resume from this checkpoint.",
            hint="Take a newer one, or stop the session.",
        )
    checkpoint_remove(checkpoint, reason="deleted by the user")


def checkpoint_remove(checkpoint: Checkpoint, *, reason: str) -> None:
    """Remove a checkpoint that nothing needs. Raises Conflict while a session serves it, or began
    from it.

    A row remembers that its bytes are still to go, so that a kill or a store that is away leaves
    nothing behind.
    """
    with transaction.atomic():
        # A session that is about to use it waits for the row, or is seen here
        # (services.session_create).
        Checkpoint.objects.select_for_update().filter(id=checkpoint.id).first()
        held_check(checkpoint_ids=[checkpoint.id])
        Removal.objects.create(prefix=checkpoint_key(checkpoint, ""))
        data = {"checkpoint_id": checkpoint.id, "reason": reason}
        event_note(checkpoint.session_id, "checkpoint_deleted", **data)
        checkpoint.delete()


def removals_finish() -> None:
    """Remove the bytes of what was deleted; what the store does not take is tried again at the next
    call.
    """
    due = Q(due_at=None) | Q(due_at__lte=timezone.now())
    for removal in Removal.objects.filter(due).order_by("created_at"):
        try:
            if removal.due_at is not None:  # from here on no row is made of them
                Removal.objects.filter(due, prefix=removal.prefix).update(due_at=None)
            object_store.delete_under(removal.prefix)
        except StorageUnavailable as away:
            log.warning("%s could not be removed yet: %s", removal.prefix, away)
            return
        Removal.objects.filter(prefix=removal.prefix, due_at=None).delete()


class Writing:
    """Objects that are written before there is a row of them: a writer that is killed leaves
    nothing for ever.

    ``renew`` as often as it goes on, ``done`` in the transaction that makes the row, ``give_up``
    otherwise.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        Removal.objects.create(prefix=prefix, due_at=timezone.now() + WRITING)

    def renew(self) -> None:
        """It is being written still. Raises StorageUnavailable where its time was over."""
        held = Removal.objects.filter(prefix=self._prefix, due_at__isnull=False)
        if not held.update(due_at=timezone.now() + WRITING):
            raise StorageUnavailable(
                "The store took longer than it may: what it had written is removed."
            )

    def done(self) -> None:
        """A row says that the objects are there. Raises StorageUnavailable where their time was
        over.
        """
        self.renew()
        Removal.objects.filter(prefix=self._prefix).delete()

    def give_up(self) -> None:
        """Remove what was written."""
        Removal.objects.update_or_create(prefix=self._prefix, defaults={"due_at": None})
