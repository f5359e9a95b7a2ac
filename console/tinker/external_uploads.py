"""External weights that a client brings: signed URLs for its files, and a path once they are what
they must be.

Each file is one part of a multipart upload, so that nothing is in the store before
``external_upload_finish``, which copies the files to where the checkpoint is: a URL that is used
later, or by somebody else, changes nothing there.
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from console.audit.services import audit_record
from console.catalogue.base_models import base_model_resolve
from console.errors import InvalidRequest, NotFound, QuotaExceeded, StorageUnavailable
from console.live.services import event_record
from console.object_store import client as object_store
from console.object_store import free_space
from console.object_store.client import copy, parts_written
from console.object_store.links import write_link
from console.sessions.checkpoints.checkpoints import checkpoint_key
from console.sessions.limits.quotas import storage_quota_check
from console.sessions.models import Checkpoint, Removal, Session, Upload
from console.sessions.runtime.uploads import MANIFEST, manifest_of
from console.tinker import uploaded_files
from console.tinker.copies import model_untrained, session_untrained
from console.tinker.models import TinkerCheckpoint
from console.users.keys import key_model_check, key_session_check
from console.users.models import ApiKey, Project, new_id
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.tinker.messages import LoraOptions

log = logging.getLogger(__name__)

NAME = "Uploaded weights"
SEGMENT, CHECKPOINT = "external_weights", "uploaded"
BOUND_EVERY_S = 10
FINISH = timedelta(minutes=10)  # no request takes longer
# uploads of a project that are not finished: their bytes are counted by what the model takes
MAX_OPEN = 4


def external_upload_start(
    *, project: Project, key: ApiKey, base_model: str, lora: LoraOptions
) -> tuple[Upload, dict[str, str], datetime]:
    """The upload, a URL for each file, and until when they hold.

    Raises UnknownBaseModel, InvalidRequest, Forbidden for a model that is not the key's,
    QuotaExceeded, StorageUnavailable, DiskFull.
    """
    key_model_check(key=key, base_model=base_model)
    size_bytes = uploaded_files.weights_bytes(
        uploaded_files.base_shapes(base_model_resolve(base_model))
    )
    storage_quota_check(project=project)
    free_space.room_require(size_bytes=size_bytes)
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(id=project.id)
        if _unfinished().filter(session__project=project).count() >= MAX_OPEN:
            raise QuotaExceeded(
                f"This project has {MAX_OPEN} uploads that are not finished.",
                hint=f"Finish one; they end by themselves {settings.TRANSFER_URL_S // 3600} hours "
                "after their start.",
            )
        session = session_untrained(project, key, NAME, base_model)
        session.save(force_insert=True)
        # Counted as stored from now on.
        checkpoint = Checkpoint.objects.create(
            session=session,
            kind=CheckpointKind.MODEL,
            state=CheckpointState.UPLOADING,
            ordered=True,
            step=0,
            size_bytes=size_bytes,
        )
        upload = Upload.objects.create(
            id=new_id("upl"),
            session=session,
            checkpoint=checkpoint,
            external={"lora": lora.model_dump()},
            files=[],
        )
    names = (*uploaded_files.REQUIRED, *uploaded_files.OPTIONAL)
    keys = {name: _upload_key(upload, name) for name in names}
    upload.files = [
        {"path": name, "key": keys[name], "upload_id": object_store.multipart_open(keys[name])}
        for name in names
    ]
    upload.save(update_fields=["files"])
    expires_s = settings.TRANSFER_URL_S
    urls = {
        file["path"]: write_link(
            file["key"],
            file["upload_id"],
            1,
            expires_s=expires_s,
            most_bytes=uploaded_files.most_bytes(file["path"]),
        )
        for file in upload.files
    }
    return upload, urls, upload.created_at + timedelta(seconds=expires_s)


def external_upload_finish(*, key: ApiKey, upload_id: str) -> TinkerCheckpoint:
    """The checkpoint that the files are; once more, the same. What is not a folder of the base
    model ends the upload.

    Raises NotFound, for another project's upload and an expired one too, Forbidden where the key's
    models or cap leave it out, InvalidRequest, which names what is wrong, QuotaExceeded,
    StorageUnavailable, DiskFull.
    """
    of_project = Upload.objects.filter(
        session__project=key.project, external__isnull=False, id=upload_id
    )
    upload = of_project.select_related("checkpoint", "session__key__user").first()
    if upload is None or upload.checkpoint is None:
        raise NotFound("There is no such upload.", hint="Start another one.")
    key_session_check(
        key=key, base_model=upload.session.base_model, started_by=upload.session.key_id
    )
    if upload.checkpoint.state != CheckpointState.COMMITTED:
        if upload.created_at <= _oldest():
            raise NotFound(
                "This upload has ended: its URLs have expired.", hint="Start another one."
            )
        _finish_once(upload, upload.checkpoint)
    return TinkerCheckpoint.objects.select_related("checkpoint", "model").get(
        checkpoint=upload.checkpoint
    )


def _finish_once(upload: Upload, checkpoint: Checkpoint) -> None:
    """One request at a time: no other removes, or writes again, what it looks at."""
    claim = f"tinker-upload-{upload.id}"
    if not cache.add(claim, True, timeout=FINISH.total_seconds()):
        raise StorageUnavailable(
            "This upload is being finished by another request.", hint="Ask again for its path."
        )
    try:
        files = _completed(upload, checkpoint)
        try:
            _verify(upload.session, checkpoint, files)
        except InvalidRequest:
            _remove(upload.session)
            raise
        _commit(upload, checkpoint, files)
    finally:
        cache.delete(claim)


def external_uploads_expire() -> None:
    """Remove what was begun and never finished; of what was, the plan."""
    for upload in (
        _unfinished().filter(created_at__lte=_oldest() - FINISH).select_related("session")
    ):
        _remove(upload.session)
    Upload.objects.filter(external__isnull=False, created_at__lte=_oldest() - FINISH).delete()


def external_uploads_bound() -> None:
    """End uploads with a file larger than any may be: their client does not say sizes, so no URL
    can have one signed.

    A store lists a part once it has all of it.
    """
    # as nearly always, and less to ask
    if not Upload.objects.filter(external__isnull=False).exists():
        return
    uploads = list(_unfinished().select_related("session"))
    if not uploads or not cache.add("external-uploads-bounded", True, timeout=BOUND_EVERY_S):
        return
    for upload in uploads:
        for file in upload.files:
            written = sum(size for _, size in parts_written(file["key"], file["upload_id"]) or ())
            if written > uploaded_files.most_bytes(file["path"]):
                log.warning("upload %s is ended: %s has %d bytes", upload.id, file["path"], written)
                _remove(upload.session)
                break


def _upload_key(upload: Upload, name: str) -> str:
    return f"sessions/{upload.session_id}/uploads/{upload.id}/{name}"


def _unfinished() -> QuerySet[Upload]:
    return Upload.objects.filter(
        external__isnull=False, checkpoint__state=CheckpointState.UPLOADING
    )


def _oldest() -> datetime:
    return timezone.now() - timedelta(seconds=settings.TRANSFER_URL_S)


def _completed(upload: Upload, checkpoint: Checkpoint) -> dict[str, int]:
    """Have the files appear where the checkpoint is; their sizes by name. Sizes are looked at
    before that.
    """
    sizes, etags = dict[str, int](), dict[str, list[str]]()
    for file in upload.files:
        parts = parts_written(file["key"], file["upload_id"])
        if parts:
            sizes[file["path"]], etags[file["path"]] = (
                sum(size for _, size in parts),
                [etag for etag, _ in parts],
            )
        elif parts is None and (written := object_store.size_bytes(file["key"])):
            sizes[file["path"]] = written  # by an earlier try of this call
    uploaded_files.sizes_check(sizes)
    storage_quota_check(
        project=upload.session.project, more_bytes=sum(sizes.values()) - checkpoint.size_bytes
    )
    free_space.room_require(size_bytes=sum(sizes.values()))
    for file in upload.files:
        if file["path"] in etags:
            object_store.multipart_complete(file["key"], file["upload_id"], etags[file["path"]])
        elif file["path"] not in sizes:
            object_store.multipart_abort(file["key"], file["upload_id"])
    for name, size_bytes in sizes.items():
        copy(_upload_key(upload, name), checkpoint_key(checkpoint, name), size_bytes=size_bytes)
    return sizes


def _verify(session: Session, checkpoint: Checkpoint, sizes: dict[str, int]) -> None:
    model = base_model_resolve(session.base_model)
    weights, config = (
        checkpoint_key(checkpoint, name) for name in (uploaded_files.WEIGHTS, uploaded_files.CONFIG)
    )
    uploaded_files.config_check(object_store.get(config) or b"", model)

    def read(offset: int, size_bytes: int) -> bytes:
        return object_store.get_range(weights, offset=offset, size_bytes=size_bytes) or b""

    uploaded_files.weights_check(
        read, sizes[uploaded_files.WEIGHTS], uploaded_files.base_shapes(model)
    )


def _commit(upload: Upload, checkpoint: Checkpoint, sizes: dict[str, int]) -> None:
    session, lora = upload.session, (upload.external or {})["lora"]
    checkpoint.files = [
        {
            "path": name,
            "size_bytes": size,
            "sha256": object_store.sha256(checkpoint_key(checkpoint, name)),
        }
        for name, size in sizes.items()
    ]
    object_store.put(
        checkpoint_key(checkpoint, MANIFEST),
        manifest_of(session, checkpoint).model_dump_json().encode(),
    )
    with transaction.atomic():
        committed = Checkpoint.objects.filter(
            id=checkpoint.id, state=CheckpointState.UPLOADING
        ).update(
            state=CheckpointState.COMMITTED,
            committed_at=timezone.now(),
            files=checkpoint.files,
            size_bytes=sum(sizes.values()),
        )
        if not committed:
            return  # another try of the same call was faster
        Removal.objects.create(prefix=_upload_key(upload, ""))
        model = model_untrained(session, None, 0, lora=lora)
        stored = TinkerCheckpoint.objects.create(
            model=model,
            checkpoint=checkpoint,
            segment=SEGMENT,
            name=CHECKPOINT,
            seq_id=0,
            lora=lora,
        )
        key = session.key
        audit_record(
            project_id=session.project_id,
            actor=key.user.email if key else "",
            key_id=key.id if key else None,
            action="checkpoint_upload",
            target={"id": checkpoint.id},
            details={"path": stored.path},
        )
        data = {"name": "checkpoint_uploaded", "checkpoint_id": checkpoint.id}
        event_record(session_id=session.id, kind=EventKind.EVENT, data=data)


def _remove(session: Session) -> None:
    """The upload and its bytes, parts included."""
    with transaction.atomic():
        Removal.objects.create(prefix=f"sessions/{session.id}/")
        session.delete()
