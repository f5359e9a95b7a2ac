"""The archive of a session's episodes: parts that its runtime uploads, read by its project."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console.errors import Conflict
from console.object_store import client as object_store
from console.object_store.links import read_link
from console.sessions.models import ArchivePart, Session, Upload
from console.sessions.runtime.leases import upload_lock
from console.sessions.selectors import session_get
from console.users.models import Project
from tinkerscript.wire.checkpoints import ManifestFile
from tinkerscript.wire.episodes import EpisodeExport, EpisodeFile


def archive_export(*, project: Project, session_id: str) -> EpisodeExport:
    """Links to every part, in every state of the session. Raises NotFound, Conflict while there is
    none."""
    session = session_get(project=project, session_id=session_id)
    parts = list(session.archive_parts.order_by("number"))
    if not parts:
        raise Conflict(
            "No episode of this session has been archived yet.",
            hint="That happens with each checkpoint, and when the session is suspended, is stopped "
            "or fails.",
        )
    expires_s = settings.PRESIGNED_URL_S
    return EpisodeExport(
        session_id=session.id,
        episodes=sum(part.episodes for part in parts),
        files=[
            EpisodeFile(
                part=part.number,
                episodes=part.episodes,
                path=part.path,
                size_bytes=part.size_bytes,
                sha256=part.sha256,
                url=read_link(
                    part_key(session, part.sha256),
                    expires_s=expires_s,
                    save_as=f"{session.id}-{part.path}",
                ),
            )
            for part in parts
        ],
        expires_at=timezone.now() + timedelta(seconds=expires_s),
    )


def part_commit(*, session: Session, upload: Upload) -> None:
    """The part that ``upload`` wrote can be read from now on; it replaces one of its number.

    Raises StaleLease, NotFound once a newer part was committed.
    """
    assert upload.archive is not None, "the upload of a part names the part"
    file, number = ManifestFile.model_validate(upload.files[0]), upload.archive["part"]
    with transaction.atomic():
        upload_lock(session, upload)
        previous = session.archive_parts.filter(number=number).first()
        ArchivePart.objects.update_or_create(
            session=session,
            number=number,
            defaults={"episodes": upload.archive["episodes"], **file.model_dump()},
        )
        Upload.objects.filter(session=session, archive__isnull=False).exclude(id=upload.id).delete()
    if previous and previous.sha256 != file.sha256:
        object_store.delete([part_key(session, previous.sha256)])


def part_key(session: Session, sha256: str) -> str:
    """Where a part lies in the bucket: named for what is in it, so that nothing is written over
    what is read.
    """
    return f"sessions/{session.id}/episodes/{sha256}.parquet"
