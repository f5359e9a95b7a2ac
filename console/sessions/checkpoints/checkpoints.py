"""Checkpoints: ordered by users, read by users."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from console.errors import Conflict, NotFound
from console.live.services import event_note
from console.object_store.links import read_link
from console.sessions.limits.quotas import storage_quota_check
from console.sessions.models import Checkpoint, Session
from console.sessions.selectors import session_get
from console.sessions.services import session_wake
from console.sessions.starting_points import committed_check
from console.users.models import Project
from tinkerscript.wire.checkpoints import (
    CheckpointDownload,
    CheckpointKind,
    CheckpointState,
    DownloadFile,
)
from tinkerscript.wire.sessions import SessionKind, SessionState


def checkpoint_request(*, project: Project, session_id: str, kind: CheckpointKind) -> Checkpoint:
    """Ask the session's runtime for a checkpoint; a suspended session wakes for it.

    Raises NotFound, Conflict when the session has ended, QuotaExceeded.
    """
    session = session_get(project=project, session_id=session_id)
    if SessionState(session.state).is_terminal:
        raise Conflict(
            f"The session is {session.state}: there is no runtime left to write a checkpoint.",
            hint="Download a committed checkpoint, or start a new session from one: give its id as "
            "base_model.",
        )
    if session.kind == SessionKind.SERVING:
        raise Conflict(
            "This session serves a model and trains nothing: there is nothing to save.",
            hint="Order a checkpoint of the session that trains.",
        )
    if session.kind == SessionKind.TINKER:
        raise Conflict(
            "A Tinker client trains the models of this session, and saves them.",
            hint="Call save_state or save_weights_for_sampler there.",
        )
    storage_quota_check(project=project)
    return checkpoint_order(session=session, kind=kind)


def checkpoint_order(*, session: Session, kind: CheckpointKind) -> Checkpoint:
    """Order a checkpoint from the session's runtime, without looking at quotas."""
    with transaction.atomic():
        checkpoint = Checkpoint.objects.create(session=session, kind=kind, ordered=True)
        event_note(session.id, "checkpoint_requested", checkpoint_id=checkpoint.id, kind=kind)
        session_wake(session=session)  # where that is refused, nothing is ordered
    return checkpoint


def checkpoint_list(*, project: Project, session_id: str) -> QuerySet[Checkpoint]:
    """The checkpoints of a session in every state, newest first. Raises NotFound."""
    session = session_get(project=project, session_id=session_id)
    return Checkpoint.objects.filter(session=session).order_by("-created_at", "-id")


def checkpoint_get(*, project: Project, session_id: str, checkpoint_id: str) -> Checkpoint:
    """One checkpoint. Raises NotFound."""
    checkpoint = (
        checkpoint_list(project=project, session_id=session_id).filter(id=checkpoint_id).first()
    )
    if checkpoint is None:
        raise NotFound("There is no such checkpoint in this session.")
    return checkpoint


def checkpoint_pin(
    *, project: Project, session_id: str, checkpoint_id: str, pinned: bool
) -> Checkpoint:
    """Keep a checkpoint until it is deleted, or no longer. Raises NotFound."""
    checkpoint = checkpoint_get(project=project, session_id=session_id, checkpoint_id=checkpoint_id)
    Checkpoint.objects.filter(id=checkpoint.id).update(pinned=pinned)
    checkpoint.refresh_from_db()
    return checkpoint


def checkpoint_download(
    *, project: Project, session_id: str, checkpoint_id: str
) -> CheckpointDownload:
    """Links to every file. Raises NotFound, Conflict while (or if never) it can be read."""
    checkpoint = checkpoint_get(project=project, session_id=session_id, checkpoint_id=checkpoint_id)
    committed_check(checkpoint)
    expires_s = settings.PRESIGNED_URL_S
    return CheckpointDownload(
        checkpoint_id=checkpoint.id,
        step=checkpoint.step or 0,
        files=[
            DownloadFile(
                url=read_link(checkpoint_key(checkpoint, file["path"]), expires_s=expires_s), **file
            )
            for file in checkpoint.files
        ],
        expires_at=timezone.now() + timedelta(seconds=expires_s),
    )


def checkpoint_resume_get(*, session_id: str) -> Checkpoint | None:
    """The latest committed ``state`` checkpoint: where a new runtime goes on."""
    committed = Checkpoint.objects.filter(
        session_id=session_id, kind=CheckpointKind.STATE, state=CheckpointState.COMMITTED
    )
    return committed.order_by("-step", "-committed_at").first()


def checkpoint_key(checkpoint: Checkpoint, path: str) -> str:
    """Where a file of a checkpoint lies in the bucket."""
    return f"sessions/{checkpoint.session_id}/checkpoints/{checkpoint.id}/{path}"
