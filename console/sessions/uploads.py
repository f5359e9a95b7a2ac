"""How a runtime writes to the object store: a plan of presigned URLs, then a commit that makes it all appear."""

import math

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console.errors import Conflict, InvalidRequest, NotFound
from console.live.services import event_record
from console.sessions import storage, store_room
from console.sessions.archive import part_commit, part_key
from console.sessions.checkpoints import checkpoint_key
from console.sessions.leases import lease_lock
from console.sessions.models import Checkpoint, Session, Upload
from console.users.models import new_id
from console.webhooks.services import event_announce
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState, Manifest, ManifestFile
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import UploadCommit, UploadCommitted, UploadFile, UploadOpen, UploadPlan
from tinkerscript.wire.webhooks import WebhookTopic

MANIFEST = "manifest.json"
PART_SIZE_BYTES = 64 << 20
KEPT_STATES = 2  # automatic `state` checkpoints of a session; one more than needed, in case the last is damaged


def upload_open(*, session: Session, body: UploadOpen) -> UploadPlan:
    """Where to write the files. ``session`` is what ``lease_check`` answered.

    Raises InvalidRequest for paths that leave their folder, NotFound and Conflict for a checkpoint that is not waiting
    to be written, StaleLease, StorageUnavailable, DiskFull.
    """
    _check_paths(body)
    store_room.room_require(size_bytes=sum(file.size_bytes for file in body.files))
    checkpoint = _checkpoint_for(session, body)
    files = []
    for file in body.files:
        key = _key(session, checkpoint, body, file)
        files.append(file.model_dump() | {"key": key, "upload_id": storage.multipart_open(key)})
    with transaction.atomic():
        lease_lock(session)
        if checkpoint is not None:
            _checkpoint_uploading(checkpoint, body)
        archive = {"part": body.part, "episodes": body.episodes} if body.kind == "archive" else None
        upload = Upload.objects.create(
            id=new_id("upl"), session=session, checkpoint=checkpoint, archive=archive, files=files
        )
    return UploadPlan(
        upload_id=upload.id, checkpoint_id=checkpoint.id if checkpoint else None, files=[_plan(file) for file in files]
    )


def upload_commit(*, session: Session, upload_id: str, body: UploadCommit) -> UploadCommitted:
    """Make every object appear, check sizes, write the manifest, then say so; doing it again changes nothing.

    Raises NotFound, InvalidRequest when the files are not those of the plan, Conflict when an object is not what was
    announced, StaleLease, StorageUnavailable.
    """
    upload = Upload.objects.select_related("checkpoint").filter(session=session, id=upload_id).first()
    if upload is None:
        raise NotFound("There is no such upload in this session.", hint="Open a new one.")
    checkpoint = upload.checkpoint
    if checkpoint is None:
        _complete(upload, body)
        if upload.archive is not None:
            part_commit(session=session, upload=upload)
        else:
            _journal_commit(session, upload)
        return UploadCommitted(checkpoint_id=None)
    if checkpoint.state != CheckpointState.COMMITTED:
        _complete(upload, body)
        storage.put(checkpoint_key(checkpoint, MANIFEST), _manifest(session, checkpoint).model_dump_json().encode())
        _checkpoint_commit(session, checkpoint)
        _prune(session)
    return UploadCommitted(checkpoint_id=checkpoint.id)


def _check_paths(body: UploadOpen) -> None:
    paths = [file.path for file in body.files]
    for path in paths:
        steps = path.split("/")
        if "\\" in path or "\0" in path or any(step in {"", ".", ".."} for step in steps) or len(path) > 512:
            raise InvalidRequest(f"{path!r} is no relative path with forward slashes.")
        if path == MANIFEST:
            raise InvalidRequest(f"{MANIFEST} is written by the server, last.")
    if len(set(paths)) != len(paths):
        raise InvalidRequest("A path stands twice in this upload.")
    if body.kind in {"journal", "archive"} and (len(paths) != 1 or body.checkpoint_id):
        raise InvalidRequest(f"A {body.kind} is one file and belongs to no checkpoint.")
    if (body.kind == "archive") != (body.part is not None):
        raise InvalidRequest("An archive has a part, and nothing else does.")
    if body.part is not None and paths != [f"part-{body.part:06d}.parquet"]:
        raise InvalidRequest("A part of an archive is named for its number.")


def _key(session: Session, checkpoint: Checkpoint | None, body: UploadOpen, file: ManifestFile) -> str:
    if checkpoint is not None:
        return checkpoint_key(checkpoint, file.path)
    if body.kind == "archive":
        return part_key(session, file.sha256)
    return f"sessions/{session.id}/journal/{file.sha256}.sqlite3"


def _checkpoint_for(session: Session, body: UploadOpen) -> Checkpoint | None:
    """The row to write to; an automatic checkpoint's is made in memory and saved with the plan."""
    if body.kind in {"journal", "archive"}:
        return None
    if body.checkpoint_id is None:
        return Checkpoint(session=session, kind=body.kind)
    checkpoint = Checkpoint.objects.filter(session=session, id=body.checkpoint_id).first()
    if checkpoint is None:
        raise NotFound("There is no such checkpoint in this session.")
    if checkpoint.kind != body.kind:
        raise Conflict(f"The checkpoint that was asked for is a {checkpoint.kind} one, not {body.kind}.")
    return checkpoint


def _checkpoint_uploading(checkpoint: Checkpoint, body: UploadOpen) -> None:
    if not checkpoint._state.adding:
        waiting = Checkpoint.objects.select_for_update().filter(
            id=checkpoint.id, state__in=[CheckpointState.REQUESTED, CheckpointState.UPLOADING]
        )
        if not waiting.exists():
            raise Conflict(
                "The checkpoint is not waiting to be written.", hint="Go by the orders of the next heartbeat."
            )
    checkpoint.state = CheckpointState.UPLOADING
    checkpoint.step = body.step
    checkpoint.files = [file.model_dump() for file in body.files]
    checkpoint.size_bytes = sum(file.size_bytes for file in body.files)
    checkpoint.save()


def _plan(file: dict) -> UploadFile:
    size = file["size_bytes"]
    count = _part_count(size)
    urls = [
        storage.part_url(file["key"], file["upload_id"], number, expires_s=settings.TRANSFER_URL_S)
        for number in range(1, count + 1)
    ]
    return UploadFile(
        path=file["path"],
        part_size_bytes=_part_size(size),
        part_urls=urls,
        upload_id=file["upload_id"] if count > 1 else None,
    )


def _part_count(size_bytes: int) -> int:
    return max(1, math.ceil(size_bytes / _part_size(size_bytes)))


def _part_size(size_bytes: int) -> int:
    return max(PART_SIZE_BYTES, math.ceil(size_bytes / storage.MAX_PARTS))


def _complete(upload: Upload, body: UploadCommit) -> None:
    etags = {file.path: file.etags for file in body.files}
    if len(body.files) != len(etags) or set(etags) != {file["path"] for file in upload.files}:
        raise InvalidRequest("The files of this commit are not those of its plan.")
    for file in upload.files:
        if len(etags[file["path"]]) != _part_count(file["size_bytes"]):
            raise InvalidRequest(f"{file['path']} needs one ETag for each of its parts, in order.")
    for file in upload.files:
        storage.multipart_complete(file["key"], file["upload_id"], etags[file["path"]])
        # An upload that is gone may have been completed by an earlier try of this commit: the object tells.
        written = storage.size_bytes(file["key"])
        if written != file["size_bytes"]:
            raise Conflict(
                f"{file['path']} has {written or 0} bytes in the store, {file['size_bytes']} were announced.",
                hint="Open a new upload and write it again.",
            )


def _manifest(session: Session, checkpoint: Checkpoint) -> Manifest:
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
        committed = Checkpoint.objects.filter(id=checkpoint.id, state=CheckpointState.UPLOADING).update(
            state=CheckpointState.COMMITTED, committed_at=timezone.now()
        )
        if committed != 1:
            return  # another try of the same commit was faster
        event_record(
            session_id=session.id,
            kind=EventKind.EVENT,
            data={
                "name": "checkpoint_committed",
                "checkpoint_id": checkpoint.id,
                "kind": checkpoint.kind,
                "step": checkpoint.step,
                "size_bytes": checkpoint.size_bytes,
            },
        )
        event_announce(
            project_id=session.project_id,
            topic=WebhookTopic.CHECKPOINT_COMMITTED,
            data={
                "session_id": session.id,
                "checkpoint_id": checkpoint.id,
                "kind": checkpoint.kind,
                "step": checkpoint.step,
            },
        )


def _journal_commit(session: Session, upload: Upload) -> None:
    file = upload.files[0]
    with transaction.atomic():
        previous = lease_lock(session).journal
        journal = {name: file[name] for name in ("path", "size_bytes", "sha256", "key")}
        Session.objects.filter(id=session.id).update(journal=journal)
        Upload.objects.filter(session=session, checkpoint=None, archive__isnull=True).exclude(id=upload.id).delete()
    if previous and previous["key"] != file["key"]:
        storage.delete([previous["key"]])


def _prune(session: Session) -> None:
    """Drop the oldest automatic ``state`` checkpoints: each is three times the model and only the last is resumed."""
    automatic = Checkpoint.objects.filter(
        session=session, kind=CheckpointKind.STATE, state=CheckpointState.COMMITTED, ordered=False, pinned=False
    )
    for checkpoint in automatic.order_by("-step", "-committed_at")[KEPT_STATES:]:
        # The manifest goes first: from then on a reader sees no checkpoint here.
        paths = [MANIFEST, *(file["path"] for file in checkpoint.files)]
        storage.delete([checkpoint_key(checkpoint, path) for path in paths])
        checkpoint.delete()
