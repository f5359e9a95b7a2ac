"""How a runtime writes to the object store: presigned URLs, then a commit that makes all objects
appear.
"""

import math
import re
from contextlib import suppress

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console.errors import Conflict, InvalidRequest, NotFound
from console.live.services import event_note
from console.object_store import client as object_store
from console.object_store import free_space
from console.sessions.alerts.services import STORE
from console.sessions.checkpoints.checkpoints import checkpoint_key
from console.sessions.checkpoints.removal import checkpoint_remove
from console.sessions.checkpoints.verification import checkpoint_give_up, is_small
from console.sessions.episodes.names import journal_key, pack_key, part_key
from console.sessions.models import Checkpoint, Session, Upload
from console.sessions.raised_alerts import alerts_close
from console.sessions.runtime.episode_reports import (
    copy_check,
    copy_commit,
    pack_commit,
    part_commit,
)
from console.sessions.runtime.leases import lease_lock
from console.sessions.states import UNWRITTEN
from console.users.models import new_id
from console.webhooks.services import event_announce
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState, Manifest, ManifestFile
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.runtime import (
    AnyUpload,
    ArchiveUpload,
    CheckpointFailure,
    CheckpointUpload,
    EpisodesUpload,
    JournalUpload,
    UploadCommit,
    UploadCommitted,
    UploadFile,
    UploadTargets,
)
from tinkerscript.wire.webhooks import WebhookTopic

MANIFEST = "manifest.json"
PART_SIZE_BYTES = 64 << 20
# What a line of a script or of a list cannot hold as a name: line breaks, other control characters,
# backslashes.
NOT_IN_PATHS = re.compile(r"[\\\x00-\x1f\x7f]")
# automatic `state` checkpoints of a session; one more than needed, in case the last is damaged
KEPT_STATES = 2


def upload_open(*, session: Session, body: AnyUpload) -> UploadTargets:
    """Where to write the files. ``session`` is what ``lease_check`` returned.

    Raises InvalidRequest for paths that leave their folder, NotFound and Conflict for a checkpoint
    that is not waiting to be written, StaleLease, StorageUnavailable, DiskFull.
    """
    _check_paths(body)
    size_bytes = sum(file.size_bytes for file in body.files)
    free_space.room_require(size_bytes=size_bytes)
    checkpoint = _checkpoint_for(session, body)
    if isinstance(body, JournalUpload):
        copy_check(session=session, body=body)
    files = []
    for file in body.files:
        key = _key(session, checkpoint, body, file)
        files.append(
            file.model_dump() | {"key": key, "upload_id": object_store.multipart_open(key)}
        )
        if isinstance(body, JournalUpload):
            files[-1]["follows"] = body.follows
    with transaction.atomic():
        lease_lock(session)
        if checkpoint is not None and isinstance(body, CheckpointUpload):
            _checkpoint_uploading(checkpoint, body)
        upload = Upload(
            id=new_id("upl"),
            session=session,
            checkpoint=checkpoint,
            files=files,
            pending_bytes=0 if checkpoint else size_bytes,
        )
        if isinstance(body, ArchiveUpload):
            upload.archive = {"part": body.part, "episodes": body.episodes}
        elif isinstance(body, EpisodesUpload):
            upload.packed = [place.model_dump() for place in body.packed]
        upload.save(force_insert=True)
    return UploadTargets(
        upload_id=upload.id,
        checkpoint_id=checkpoint.id if checkpoint else None,
        files=[_plan(file) for file in files],
    )


def checkpoint_fail(*, session: Session, body: CheckpointFailure) -> None:
    """An ordered checkpoint cannot be made: it fails with its cause, and the session goes on.
    Raises StaleLease."""
    with transaction.atomic():
        row = lease_lock(session)
        checkpoint = Checkpoint.objects.filter(id=body.checkpoint_id, session=row).first()
        if checkpoint is not None:
            checkpoint_give_up(checkpoint, UNWRITTEN, body.reason)


def upload_commit(*, session: Session, upload_id: str, body: UploadCommit) -> UploadCommitted:
    """Make every object appear, check sizes and hashes, write the manifest, say so; doing it again
    changes nothing.

    Raises NotFound, InvalidRequest when the files are not those of the plan, Conflict when an
    object is not what was announced, StaleLease, StorageUnavailable. Large files of a checkpoint
    are hashed after it (``verification``).
    """
    upload = (
        Upload.objects.select_related("checkpoint").filter(session=session, id=upload_id).first()
    )
    if upload is None:
        raise NotFound("There is no such upload in this session.", hint="Open a new one.")
    checkpoint = upload.checkpoint
    if checkpoint is None:
        _complete(upload, body)
        if upload.archive is not None:
            part_commit(session=session, upload=upload)
        elif upload.packed is not None:
            pack_commit(session=session, upload=upload)
        else:
            copy_commit(session=session, upload=upload)
        _store_works(session)
        return UploadCommitted(checkpoint_id=None)
    if checkpoint.state != CheckpointState.COMMITTED:
        _complete(upload, body)
        object_store.put(
            checkpoint_key(checkpoint, MANIFEST),
            manifest_of(session, checkpoint).model_dump_json().encode(),
        )
        _checkpoint_commit(session, checkpoint)
        _store_works(session)
        _prune(session)
    return UploadCommitted(checkpoint_id=checkpoint.id)


def _store_works(session: Session) -> None:
    """What the object store could not take is over."""
    alerts_close(session.alerts.filter(rule=AlertRule.DISK, subject=STORE))


def _check_paths(body: AnyUpload) -> None:
    paths = [file.path for file in body.files]
    for path in paths:
        steps = path.split("/")
        if (
            NOT_IN_PATHS.search(path)
            or any(step in {"", ".", ".."} for step in steps)
            or len(path) > 512
        ):
            raise InvalidRequest(f"{path!r} is no relative path with forward slashes.")
        if path == MANIFEST:
            raise InvalidRequest(f"{MANIFEST} is written by the server, last.")
    if len(set(paths)) != len(paths):
        raise InvalidRequest("A path stands twice in this upload.")
    if isinstance(body, ArchiveUpload) and paths != [f"part-{body.part:06d}.parquet"]:
        raise InvalidRequest("A part of an archive is named for its number.")
    if isinstance(body, EpisodesUpload) and any(
        place.offset + place.size_bytes > body.files[0].size_bytes for place in body.packed
    ):
        raise InvalidRequest("An episode of this upload lies outside of its file.")


def _key(
    session: Session, checkpoint: Checkpoint | None, body: AnyUpload, file: ManifestFile
) -> str:
    if checkpoint is not None:
        return checkpoint_key(checkpoint, file.path)
    if isinstance(body, ArchiveUpload):
        return part_key(session, file.sha256)
    if isinstance(body, EpisodesUpload):
        return pack_key(session, file.sha256)
    return journal_key(session, file.sha256)


def _checkpoint_for(session: Session, body: AnyUpload) -> Checkpoint | None:
    """The row to write to; an automatic checkpoint's is made in memory and saved with the plan."""
    if not isinstance(body, CheckpointUpload):
        return None
    if body.checkpoint_id is None:
        return Checkpoint(session=session, kind=body.kind)
    checkpoint = Checkpoint.objects.filter(session=session, id=body.checkpoint_id).first()
    if checkpoint is None:
        raise NotFound("There is no such checkpoint in this session.")
    if checkpoint.kind != body.kind:
        raise Conflict(
            f"The checkpoint that was asked for is a {checkpoint.kind} one, not {body.kind}."
        )
    return checkpoint


def _checkpoint_uploading(checkpoint: Checkpoint, body: CheckpointUpload) -> None:
    if not checkpoint._state.adding:  # noqa: SLF001 - documented by Django
        waiting = Checkpoint.objects.select_for_update().filter(
            id=checkpoint.id, state__in=UNWRITTEN
        )
        if not waiting.exists():
            raise Conflict(
                "The checkpoint is not waiting to be written.",
                hint="Go by the orders of the next heartbeat.",
            )
    checkpoint.state = CheckpointState.UPLOADING
    checkpoint.step = body.step
    checkpoint.files = [file.model_dump() for file in body.files]
    checkpoint.size_bytes = sum(file.size_bytes for file in body.files)
    checkpoint.save()


def _plan(file: dict) -> UploadFile:
    size, part_size = file["size_bytes"], _part_size(file["size_bytes"])
    count = _part_count(size)
    urls = [
        object_store.part_url(
            file["key"],
            file["upload_id"],
            number,
            expires_s=settings.TRANSFER_URL_S,
            size_bytes=min(part_size, size - part_size * (number - 1)),
        )
        for number in range(1, count + 1)
    ]
    return UploadFile(
        path=file["path"],
        part_size_bytes=part_size,
        part_urls=urls,
        upload_id=file["upload_id"] if count > 1 else None,
    )


def _part_count(size_bytes: int) -> int:
    return max(1, math.ceil(size_bytes / _part_size(size_bytes)))


def _part_size(size_bytes: int) -> int:
    return max(PART_SIZE_BYTES, math.ceil(size_bytes / object_store.MAX_PARTS))


def _complete(upload: Upload, body: UploadCommit) -> None:
    etags = {file.path: file.etags for file in body.files}
    if len(body.files) != len(etags) or set(etags) != {file["path"] for file in upload.files}:
        raise InvalidRequest("The files of this commit are not those of its plan.")
    for file in upload.files:
        if len(etags[file["path"]]) != _part_count(file["size_bytes"]):
            raise InvalidRequest(f"{file['path']} needs one ETag for each of its parts, in order.")
    for file in upload.files:
        object_store.multipart_complete(file["key"], file["upload_id"], etags[file["path"]])
        # An upload that is gone may have been completed by an earlier try of this commit: look.
        written = object_store.size_bytes(file["key"])
        if written != file["size_bytes"]:
            raise Conflict(
                f"{file['path']} has {written or 0} bytes in the store, {file['size_bytes']} were "
                "announced.",
                hint="Open a new upload and write it again.",
            )
        if is_small(file) and object_store.sha256(file["key"]) != file["sha256"]:
            raise Conflict(
                f"{file['path']} in the store is not what was announced: its SHA-256 is another.",
                hint="Open a new upload and write it again.",
            )


def manifest_of(session: Session, checkpoint: Checkpoint) -> Manifest:
    """What says that a checkpoint is whole: it is written last."""
    assert checkpoint.step is not None, "set when the upload was opened"
    return Manifest(
        checkpoint_id=checkpoint.id,
        session_id=session.id,
        kind=CheckpointKind(checkpoint.kind),
        step=checkpoint.step,
        base_model=session.base_model,
        files=[ManifestFile(**file) for file in checkpoint.files],
    )


def _checkpoint_commit(session: Session, checkpoint: Checkpoint) -> None:
    with transaction.atomic():
        lease_lock(session)
        committed = Checkpoint.objects.filter(
            id=checkpoint.id, state=CheckpointState.UPLOADING
        ).update(
            state=CheckpointState.COMMITTED,
            committed_at=timezone.now(),
            unverified=not all(is_small(file) for file in checkpoint.files),
        )
        if committed != 1:
            return  # another try of the same commit was faster
        failed = session.alerts.filter(rule=AlertRule.CHECKPOINT_FAILED, subject=checkpoint.kind)
        alerts_close(failed)
        told = {
            "checkpoint_id": checkpoint.id,
            "kind": checkpoint.kind,
            "step": checkpoint.step,
        }
        path = {"path": checkpoint.tinker.path} if hasattr(checkpoint, "tinker") else {}
        event_note(
            session.id, "checkpoint_committed", **told, size_bytes=checkpoint.size_bytes, **path
        )
        event_announce(
            project_id=session.project_id,
            topic=WebhookTopic.CHECKPOINT_COMMITTED,
            data={"session_id": session.id} | told,
        )


def _prune(session: Session) -> None:
    """Drop the oldest automatic ``state`` checkpoints: each is three times the model and only the
    last is resumed.
    """
    automatic = Checkpoint.objects.filter(
        session=session,
        kind=CheckpointKind.STATE,
        state=CheckpointState.COMMITTED,
        ordered=False,
        pinned=False,
    )
    for checkpoint in automatic.order_by("-step", "-committed_at")[KEPT_STATES:]:
        with suppress(Conflict):  # another session began from it
            checkpoint_remove(checkpoint, reason="newer states replaced it")
