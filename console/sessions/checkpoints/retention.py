"""How long checkpoints are kept: automatic ``state`` ones by number (uploads.py), all by age,
pinned ones for ever.
"""

from contextlib import suppress
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from console.errors import Conflict
from console.sessions.checkpoints.checkpoints import checkpoint_get, checkpoint_resume_get
from console.sessions.checkpoints.removal import checkpoint_remove
from console.sessions.models import Checkpoint, Session
from console.sessions.states import ENDED, GOING
from console.users.models import Project
from tinkerscript.wire.checkpoints import CheckpointState


def checkpoint_pin(
    *, project: Project, session_id: str, checkpoint_id: str, pinned: bool
) -> Checkpoint:
    """Keep a checkpoint until it is deleted, or no longer. Raises NotFound."""
    checkpoint = checkpoint_get(project=project, session_id=session_id, checkpoint_id=checkpoint_id)
    Checkpoint.objects.filter(id=checkpoint.id).update(pinned=pinned)
    checkpoint.refresh_from_db()
    return checkpoint


def checkpoints_expire() -> None:
    """Remove committed checkpoints older than the setting allows, but not what a session serves or
    resumes from.
    """
    if not settings.CHECKPOINT_DAYS:
        return
    before = timezone.now() - timedelta(days=settings.CHECKPOINT_DAYS)
    old = Checkpoint.objects.filter(
        state=CheckpointState.COMMITTED, pinned=False, committed_at__lt=before
    )
    going = Session.objects.filter(state__in=GOING)
    for used in ("served_checkpoint_id", "start_state_id"):
        old = old.exclude(id__in=going.exclude(**{used: ""}).values(used))
    for checkpoint in old.select_related("session"):
        if checkpoint.session.state in ENDED or checkpoint != checkpoint_resume_get(
            session_id=checkpoint.session_id
        ):
            with suppress(Conflict):  # one that is used since
                checkpoint_remove(checkpoint, reason=f"older than {settings.CHECKPOINT_DAYS} days")
