"""Files of the object store as a runtime is given them: what it resumes from, what it serves, its
journal.
"""

from collections.abc import Sequence
from typing import Any

from django.conf import settings

from console.object_store import client as object_store
from console.sessions.checkpoints.checkpoints import checkpoint_key, checkpoint_resume_get
from console.sessions.episodes.names import pack_key
from console.sessions.models import Checkpoint, EpisodeRecord, Session
from console.sessions.starting_points import start_checkpoint
from tinkerscript.wire.runtime import DocumentPlace, ResumePoint, StoredFile
from tinkerscript.wire.sessions import SessionKind


def starting_points(row: Session) -> dict[str, Any]:
    """What an Assignment has of where its session begins and goes on. Raises InvalidRequest as
    ``served_point``."""
    return {
        "resume_from": resume_point(row) if row.kind == SessionKind.EPISODES else None,
        "starts_from": starting_state(row),
        "serves": served_point(row),
        "started_from": row.started_from,
    }


def resume_point(row: Session) -> ResumePoint | None:
    """Where a runtime of the session goes on; None: from the start."""
    checkpoint = checkpoint_resume_get(session_id=row.id)
    return None if checkpoint is None else _point(checkpoint)


def starting_state(row: Session) -> ResumePoint | None:
    """The state that step 0 of the session has. Raises InvalidRequest as ``served_point``."""
    if not row.start_state_id:
        return None
    return _point(start_checkpoint(row, row.start_state_id)).model_copy(update={"step": 0})


def served_point(row: Session) -> ResumePoint | None:
    """What stands in the base model's place. Raises InvalidRequest for a checkpoint that is gone or
    was taken back."""
    return (
        _point(start_checkpoint(row, row.served_checkpoint_id))
        if row.served_checkpoint_id
        else None
    )


def documents_find(*, session: Session, episode_ids: Sequence[str]) -> list[DocumentPlace]:
    """Where the documents of these episodes are; those that have none in the store are left out."""
    records = EpisodeRecord.objects.filter(
        session=session, episode_id__in=episode_ids, pack__isnull=False
    )
    urls: dict[str, str] = {}
    places = []
    for record in records.select_related("pack"):
        assert record.pack is not None, "the query leaves the others out"
        key = pack_key(session, record.pack.sha256)
        if key not in urls:
            urls[key] = object_store.read_url(key, expires_s=settings.TRANSFER_URL_S)
        places.append(
            DocumentPlace(
                episode_id=record.episode_id,
                url=urls[key],
                offset=record.pack_offset,
                size_bytes=record.pack_bytes,
            )
        )
    return places


def _point(checkpoint: Checkpoint) -> ResumePoint:
    files = [
        stored_file(checkpoint_key(checkpoint, file["path"]), file) for file in checkpoint.files
    ]
    return ResumePoint(checkpoint_id=checkpoint.id, step=checkpoint.step or 0, files=files)


def stored_file(key: str, file: dict[str, Any]) -> StoredFile:
    """The file under ``key``, with a URL that reads it."""
    return StoredFile(
        path=file["path"],
        size_bytes=file["size_bytes"],
        sha256=file["sha256"],
        url=object_store.read_url(key, expires_s=settings.TRANSFER_URL_S),
    )
