"""Runs that nothing trains: each holds one checkpoint of a client. Here are those that a checkpoint
is copied to, from any project that the caller may read.
"""

from typing import Any

from django.db import transaction
from django.utils import timezone

from console.audit.services import audit_record
from console.errors import InvalidRequest
from console.live.services import event_record
from console.object_store import client as object_store
from console.object_store.client import copy
from console.sessions.checkpoints.checkpoints import checkpoint_key
from console.sessions.checkpoints.removal import Writing
from console.sessions.limits.quotas import storage_quota_check
from console.sessions.models import Checkpoint, Session
from console.sessions.runtime.uploads import MANIFEST, manifest_of
from console.sessions.states import Desired
from console.tinker.checkpoints import checkpoint_find, expiry_of, ttl_check
from console.tinker.models import TinkerCheckpoint, TinkerModel, TinkerSession
from console.users.keys import key_model_check
from console.users.models import ApiKey, Project
from tinkerscript.wire.checkpoints import CheckpointState
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionKind, SessionState
from tinkerscript.wire.tinker.ids import ModelId

NAME = "Copy of a checkpoint"


def checkpoint_copy(
    *,
    reader: Project,
    project: Project,
    key: ApiKey,
    path: str,
    ttl_seconds: int | None,
    tinker_session: TinkerSession | None,
    number: int,
    once: str,
) -> TinkerCheckpoint:
    """Copy what ``reader`` may read to ``project``; a request that comes again gets what it made.

    Such a one has the same number in a Tinker session; without one, the same ``once``, and the copy
    gets a Tinker session of its own that is finished. Raises InvalidRequest, NotFound, Forbidden
    for a model that is not the key's, QuotaExceeded, StorageUnavailable, DiskFull.
    """
    ttl_check(ttl_seconds)
    source = checkpoint_find(project=reader, path=path)
    key_model_check(key=key, base_model=source.model.base_model)
    if (known := _known(project, tinker_session, number, once, source)) is not None:
        return known
    storage_quota_check(project=project)
    session = session_untrained(project, key, NAME, source.model.base_model)
    of = source.checkpoint
    made = Checkpoint(
        session=session,
        kind=of.kind,
        state=CheckpointState.COMMITTED,
        ordered=True,
        step=of.step,
        files=of.files,
        size_bytes=of.size_bytes,
        unverified=of.unverified,
        committed_at=timezone.now(),
    )
    writing, is_kept = Writing(checkpoint_key(made, "")), False
    try:
        for file in of.files:
            writing.renew()
            copy(
                checkpoint_key(of, file["path"]),
                checkpoint_key(made, file["path"]),
                size_bytes=file["size_bytes"],
            )
        object_store.put(
            checkpoint_key(made, MANIFEST), manifest_of(session, made).model_dump_json().encode()
        )
        with transaction.atomic():
            # of two equal requests the first is kept
            Project.objects.select_for_update(no_key=True).get(id=project.id)
            known = _known(project, tinker_session, number, once, source)
            if known is None:
                writing.done()
                stored = _rows_write(
                    source, session, made, tinker_session, number, once, ttl_seconds
                )
        is_kept = known is None
        return known or stored
    finally:
        if not is_kept:
            writing.give_up()


def _known(
    project: Project,
    tinker_session: TinkerSession | None,
    number: int,
    once: str,
    source: TinkerCheckpoint,
) -> TinkerCheckpoint | None:
    """What an equal request has made. Raises InvalidRequest where the number is another model's."""
    models = TinkerModel.objects.filter(tinker_session__project=project)
    if tinker_session is not None:
        model = models.filter(tinker_session=tinker_session, number=number).first()
    else:
        model = models.filter(source__once=once).first() if once else None
    if model is None:
        return None
    copied = model.checkpoints.select_related("checkpoint").first()
    if copied is None or (model.source or {}).get("copy_of") != source.checkpoint_id:
        raise InvalidRequest(
            "The number, or the idempotency key, of this request was used for another one."
        )
    return copied


def _rows_write(
    source: TinkerCheckpoint,
    session: Session,
    made: Checkpoint,
    tinker_session: TinkerSession | None,
    number: int,
    once: str,
    ttl_seconds: int | None,
) -> TinkerCheckpoint:
    session.save(force_insert=True)
    made.save(force_insert=True)
    model = model_untrained(
        session,
        tinker_session,
        number,
        lora=source.lora,
        user_metadata=source.model.user_metadata,
        source={"path": source.path, "copy_of": source.checkpoint_id, "once": once},
    )
    stored = TinkerCheckpoint.objects.create(
        model=model,
        checkpoint=made,
        segment=source.segment,
        name=source.name,
        seq_id=source.seq_id,
        lora=source.lora,
        user_metadata=source.user_metadata,
        expires_at=expiry_of(ttl_seconds),
    )
    key = session.key
    assert key is not None, "the caller's"
    audit_record(
        project_id=session.project_id,
        actor=key.user.email,
        key_id=key.id,
        action="checkpoint_copy",
        target={"id": made.id},
        details={"from": source.path},
    )
    data = {"name": "checkpoint_copied", "checkpoint_id": made.id, "from": source.path}
    event_record(session_id=session.id, kind=EventKind.EVENT, data=data)
    return stored


def session_untrained(project: Project, key: ApiKey, name: str, base_model: str) -> Session:
    """A session of ours that no runtime has, not saved yet."""
    return Session(
        project=project,
        key=key,
        person=key.user,
        kind=SessionKind.TINKER,
        name=name,
        state=SessionState.STOPPED,
        desired=Desired.STOP,
        base_model=base_model,
        devices=0,
    )


def model_untrained(
    session: Session, tinker_session: TinkerSession | None, number: int, **fields: Any
) -> TinkerModel:
    """The model of such a session; without a Tinker session in one of its own that is finished."""
    if tinker_session is None:
        finished = {"type": "success", "detail": "", "at": timezone.now().isoformat()}
        tinker_session = TinkerSession.objects.create(
            project=session.project, key=session.key, display_name=session.name, finished=finished
        )
    return TinkerModel.objects.create(
        id=str(ModelId(tinker_session.id, number)),
        tinker_session=tinker_session,
        session=session,
        number=number,
        base_model=session.base_model,
        **fields,
    )
