"""Checkpoints by the names that Tinker clients give them."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from console.errors import Conflict, InvalidRequest, NotFound, QuotaExceeded
from console.object_store.links import read_link
from console.sessions.checkpoints.checkpoints import checkpoint_key
from console.sessions.checkpoints.removal import checkpoint_remove
from console.sessions.limits.quotas import storage_quota_check
from console.sessions.models import Checkpoint, Session
from console.sessions.runtime.leases import lease_lock
from console.sessions.runtime.stored_files import stored_file
from console.tinker.models import TinkerCheckpoint, TinkerModel
from console.users.models import Project
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState
from tinkerscript.wire.runtime import StoredFile
from tinkerscript.wire.tinker.ids import TINKER_PATH
from tinkerscript.wire.tinker.messages import (
    NamedCheckpoint,
    NamedCheckpointOpen,
    NamedState,
    NamedStateFind,
)

MIN_TTL_S, MAX_TTL_S = 3600, 10 * 366 * 86_400


def named_checkpoint_open(*, session: Session, body: NamedCheckpointOpen) -> NamedCheckpoint:
    """A runtime is about to store it. Raises NotFound, StaleLease; what its client did wrong is the
    ``refusal``.
    """
    model = TinkerModel.objects.filter(session=session, id=body.model_id).first()
    if model is None:
        raise NotFound("There is no such model in this session.")
    try:
        storage_quota_check(project=session.project)
    except QuotaExceeded as full:
        return NamedCheckpoint(refusal=f"{full.message} {full.hint}")
    with transaction.atomic():
        lease_lock(session)
        named = TinkerCheckpoint.objects.filter(model=model, segment=body.segment, name=body.name)
        known = named.filter(seq_id=body.seq_id).select_related("checkpoint").first()
        if known is not None and known.checkpoint.state != CheckpointState.FAILED:
            is_stored = known.checkpoint.state == CheckpointState.COMMITTED
            return NamedCheckpoint(checkpoint_id=known.checkpoint_id, is_stored=is_stored)
        if (
            named.filter(checkpoint__state=CheckpointState.COMMITTED).exists()
            and not body.overwrite
        ):
            return NamedCheckpoint(
                refusal=f"tinker://{model.id}/{body.segment}/{body.name} is there: use another "
                "name, or delete it"
            )
        kind = CheckpointKind.STATE if body.segment == "weights" else CheckpointKind.MODEL
        checkpoint = Checkpoint.objects.create(session=session, kind=kind, ordered=True)
        TinkerCheckpoint.objects.create(
            model=model,
            checkpoint=checkpoint,
            segment=body.segment,
            name=body.name,
            seq_id=body.seq_id,
            lora=body.lora.model_dump(),
            user_metadata=body.user_metadata,
            expires_at=expiry_of(body.ttl_seconds),
        )
    return NamedCheckpoint(checkpoint_id=checkpoint.id)


def named_state_find(*, session: Session, body: NamedStateFind) -> NamedState:
    """A saved state for a model of the session, by what its client may read. Raises NotFound for a
    model of another.
    """
    if not TinkerModel.objects.filter(session=session, id=body.model_id).exists():
        raise NotFound("There is no such model in this session.")
    try:
        found = checkpoint_find(project=session.project, path=body.path)
    except (InvalidRequest, NotFound) as refused:
        return NamedState(refusal=refused.message)
    if found.segment != "weights":
        return NamedState(
            refusal=f"{body.path} is no training state: use a path that save_state returned."
        )
    return NamedState(checkpoint_id=found.checkpoint_id, files=checkpoint_files(found.checkpoint))


def checkpoints_of(*, project: Project, model_id: str | None = None) -> QuerySet[TinkerCheckpoint]:
    """The project's committed ones that have not expired, newest first; of one model, or of all."""
    rows = TinkerCheckpoint.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=timezone.now()),
        model__tinker_session__project=project,
        checkpoint__state=CheckpointState.COMMITTED,
    )
    if model_id is not None:
        rows = rows.filter(model_id=model_id)
    return rows.select_related("checkpoint__session", "model__tinker_session").order_by(
        "-created_at", "-id"
    )


def checkpoint_find(*, project: Project, path: str) -> TinkerCheckpoint:
    """The project's own, or a published one of any. Raises InvalidRequest for what is no path,
    NotFound.
    """
    parts = TINKER_PATH.fullmatch(path)
    if parts is None:
        raise InvalidRequest(
            f"{path!r} is no path of the form tinker://MODEL/weights|sampler_weights/NAME."
        )
    named = {"model_id": parts["model_id"], "segment": parts["segment"], "name": parts["name"]}
    found = checkpoints_of(project=project).filter(**named).first()
    if found is None:
        committed = TinkerCheckpoint.objects.filter(
            Q(expires_at=None) | Q(expires_at__gt=timezone.now()),
            checkpoint__state=CheckpointState.COMMITTED,
            public=True,
        )
        found = (
            committed.filter(**named)
            .select_related("checkpoint__session", "model")
            .order_by("-created_at")
            .first()
        )
    if found is None:
        raise NotFound(f"There is no checkpoint {path}.")
    return found


def checkpoint_own(*, project: Project, model_id: str, segment: str, name: str) -> TinkerCheckpoint:
    """One of the project's own, to be changed. Raises NotFound."""
    found = (
        checkpoints_of(project=project, model_id=model_id)
        .filter(segment=segment, name=name)
        .first()
    )
    if found is None:
        raise NotFound(f"There is no checkpoint tinker://{model_id}/{segment}/{name}.")
    return found


def checkpoint_delete(*, checkpoint: TinkerCheckpoint) -> None:
    """Remove it and whatever it replaced under its name."""
    rows = TinkerCheckpoint.objects.filter(
        model=checkpoint.model,
        segment=checkpoint.segment,
        name=checkpoint.name,
        checkpoint__state=CheckpointState.COMMITTED,
    )
    for row in rows.select_related("checkpoint"):
        checkpoint_remove(row.checkpoint, reason="deleted by the user")


def checkpoint_ttl_set(*, checkpoint: TinkerCheckpoint, ttl_seconds: int | None) -> None:
    """Let it expire so many seconds from now, or never. Raises InvalidRequest."""
    ttl_check(ttl_seconds)
    TinkerCheckpoint.objects.filter(id=checkpoint.id).update(expires_at=expiry_of(ttl_seconds))


def ttl_check(ttl_seconds: int | None) -> None:
    """Raises InvalidRequest."""
    if ttl_seconds is not None and not MIN_TTL_S <= ttl_seconds <= MAX_TTL_S:
        raise InvalidRequest(
            f"ttl_seconds is {ttl_seconds}; it must be from {MIN_TTL_S} to {MAX_TTL_S}, or null."
        )


def checkpoint_publish(*, checkpoint: TinkerCheckpoint, public: bool) -> None:
    """Let every project of this server read it; or its own alone, also what it replaced under its
    name.
    """
    rows = TinkerCheckpoint.objects.filter(id=checkpoint.id)
    if not public:
        rows = TinkerCheckpoint.objects.filter(
            model=checkpoint.model, segment=checkpoint.segment, name=checkpoint.name
        )
    rows.update(public=public)


def named_publish(*, checkpoint: Checkpoint, public: bool) -> None:
    """The same for a checkpoint of a session. Raises InvalidRequest for one that no client named,
    Conflict.
    """
    named = TinkerCheckpoint.objects.filter(checkpoint=checkpoint).select_related("model").first()
    if named is None:
        raise InvalidRequest("Only a checkpoint that a tinker client named can be published.")
    if public and checkpoint.state != CheckpointState.COMMITTED:
        raise Conflict("This checkpoint is not committed yet.", hint="Publish it once it is.")
    checkpoint_publish(checkpoint=named, public=public)


def checkpoint_files(checkpoint: Checkpoint) -> list[StoredFile]:
    """Its files as a runtime reads them."""
    return [
        stored_file(checkpoint_key(checkpoint, file["path"]), file) for file in checkpoint.files
    ]


def checkpoint_urls(checkpoint: TinkerCheckpoint) -> tuple[dict[str, str], datetime]:
    """Links to its files by their relative paths, and until when they hold."""
    expires_s, stored = settings.TRANSFER_URL_S, checkpoint.checkpoint
    until = timezone.now() + timedelta(seconds=expires_s)
    paths = [file["path"] for file in stored.files]
    return {
        path: read_link(checkpoint_key(stored, path), expires_s=expires_s) for path in paths
    }, until


def checkpoints_replaced_remove() -> None:
    """Remove what has expired, and what a newer one of its name replaced."""
    expired = TinkerCheckpoint.objects.filter(
        expires_at__lt=timezone.now(), checkpoint__state=CheckpointState.COMMITTED
    )
    for row in expired.select_related("checkpoint"):
        with suppress(Conflict):  # a session that began from it still needs it
            checkpoint_remove(row.checkpoint, reason="its time to live is over")
    committed = TinkerCheckpoint.objects.filter(checkpoint__state=CheckpointState.COMMITTED)
    newest: dict[tuple[Any, ...], int] = {}
    for row in committed.select_related("checkpoint").order_by("-created_at", "-id"):
        name = (row.model_id, row.segment, row.name)
        if newest.setdefault(name, row.id) != row.id:
            with suppress(Conflict):
                checkpoint_remove(row.checkpoint, reason="replaced by a newer one of its name")


def expiry_of(ttl_seconds: int | None) -> datetime | None:
    """When what lives so long from now ends."""
    return None if ttl_seconds is None else timezone.now() + timedelta(seconds=ttl_seconds)
