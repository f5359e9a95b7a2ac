"""Whether the store has what a runtime announced: the server hashes it itself.

Small files are hashed before a commit is acknowledged. A checkpoint of a large model takes minutes
to read, which a request must not wait for: it is hashed soon after its commit, and taken back if it
is not what its manifest says. Large copies of a journal are left out: only their own runtime reads
them, and it checks them.
"""

import logging
from collections.abc import Collection
from typing import Any

from django.db import transaction

from console.errors import StorageUnavailable
from console.object_store import client as object_store
from console.sessions.checkpoints.checkpoints import checkpoint_key
from console.sessions.models import Checkpoint, Removal
from console.sessions.raised_alerts import checkpoint_alert
from console.sessions.transitions import checkpoint_failure_tell
from tinkerscript.wire.checkpoints import CheckpointState

MAX_SMALL_BYTES = 64 << 20  # hashed in a tenth of a second

log = logging.getLogger(__name__)


def is_small(file: dict[str, Any]) -> bool:
    """Whether a file is hashed before its commit is acknowledged."""
    return file["size_bytes"] <= MAX_SMALL_BYTES


def checkpoints_verify() -> None:
    """Hash the large files of committed checkpoints, the one that waited longest first."""
    waiting = Checkpoint.objects.filter(unverified=True, state=CheckpointState.COMMITTED).order_by(
        "committed_at"
    )
    for checkpoint in waiting:
        try:
            wrong = _wrong_file(checkpoint)
        except StorageUnavailable as away:
            log.warning("%s could not be verified yet: %s", checkpoint.id, away)
            return
        if not wrong:
            Checkpoint.objects.filter(id=checkpoint.id).update(unverified=False)
        elif Checkpoint.objects.filter(id=checkpoint.id).exists():  # not deleted while it was read
            reason = f"{wrong} in the store is not what was announced: its SHA-256 is another"
            session_id = checkpoint.session_id
            log.error(
                "%s is taken back: %s", checkpoint.id, reason, extra={"session_id": session_id}
            )
            checkpoint_give_up(checkpoint, [CheckpointState.COMMITTED], reason)


def _wrong_file(checkpoint: Checkpoint) -> str:
    """The path of the first file whose bytes are others than announced; empty where there is
    none.
    """
    for file in checkpoint.files:
        if (
            not is_small(file)
            and object_store.sha256(checkpoint_key(checkpoint, file["path"])) != file["sha256"]
        ):
            return file["path"]
    return ""


def checkpoint_give_up(
    checkpoint: Checkpoint, states: Collection[CheckpointState], reason: str
) -> None:
    """Fail a checkpoint that is in one of ``states``, and remove what the store has of it."""
    with transaction.atomic():
        taken = Checkpoint.objects.filter(id=checkpoint.id, state__in=states).update(
            state=CheckpointState.FAILED, failure=reason, unverified=False
        )
        if taken != 1:
            return
        Removal.objects.get_or_create(prefix=checkpoint_key(checkpoint, ""))
        checkpoint_failure_tell(
            session_id=checkpoint.session_id, checkpoint_id=checkpoint.id, reason=reason
        )
        checkpoint_alert(session=checkpoint.session, kind=checkpoint.kind, reason=reason)
