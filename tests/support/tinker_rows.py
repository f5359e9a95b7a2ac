"""Rows of Tinker clients for tests, made the way the product makes them."""

from typing import Any

from django.utils import timezone

from console.sessions.models import Checkpoint
from console.sessions.runtime.leases import lease_issue
from console.tinker.checkpoints import named_checkpoint_open
from console.tinker.models import TinkerModel
from tinkerscript.wire.checkpoints import CheckpointState
from tinkerscript.wire.tinker.messages import LoraOptions, NamedCheckpoint, NamedCheckpointOpen


def checkpoint_store(
    model_id: str, name: str, segment: str = "weights", seq_id: int = 1, **options: Any
) -> NamedCheckpoint:
    """A runtime stores a checkpoint of the model under a name; what the control plane said."""
    model = TinkerModel.objects.select_related("session__project").get(id=model_id)
    if not model.session.lease_sha256:
        lease_issue(session=model.session)
    body = NamedCheckpointOpen(
        model_id=model_id,
        segment=segment,
        name=name,
        seq_id=seq_id,
        lora=LoraOptions(rank=8),
        **options,
    )
    opened = named_checkpoint_open(session=model.session, body=body)
    if opened.checkpoint_id:
        Checkpoint.objects.filter(id=opened.checkpoint_id).update(
            state=CheckpointState.COMMITTED,
            step=seq_id,
            size_bytes=7,
            files=[],
            committed_at=timezone.now(),
        )
    return opened
