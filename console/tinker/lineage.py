"""From which saved states a checkpoint came, and what else it was made of.

A session of episodes goes on from its latest committed state whenever a runtime starts, so each earlier state is an
ancestor. A Tinker client's model began from a saved state or from its base model; what it loads later is not recorded.
"""

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from console.sessions.checkpoints.checkpoints import checkpoint_get
from console.sessions.models import Checkpoint, Session
from console.tinker.models import TinkerCheckpoint
from console.users.models import Project
from tinkerscript.wire.checkpoints import (
    Ancestor,
    CheckpointKind,
    CheckpointProvenance,
    CheckpointState,
    ManifestFile,
)
from tinkerscript.wire.sessions import SessionKind

MAX_ANCESTORS = 20


def checkpoint_provenance(*, project: Project, session_id: str, checkpoint_id: str) -> CheckpointProvenance:
    """What the checkpoint was made of, as recorded. Raises NotFound."""
    checkpoint = checkpoint_get(project=project, session_id=session_id, checkpoint_id=checkpoint_id)
    session = checkpoint.session
    is_tinker = session.kind == SessionKind.TINKER
    return CheckpointProvenance(
        checkpoint_id=checkpoint.id,
        session_id=session.id,
        session_name=session.name or session.id,
        kind=CheckpointKind(checkpoint.kind),
        step=checkpoint.step,
        base_model=session.base_model,
        ancestors=list(_sources(project, checkpoint) if is_tinker else _earlier_states(session, checkpoint)),
        config=session.config,
        config_sha256=_digest(session.config),
        created_at=checkpoint.created_at,
        committed_at=checkpoint.committed_at,
        files=[ManifestFile(**file) for file in checkpoint.files],
        hashes_checked=checkpoint.state == CheckpointState.COMMITTED and not checkpoint.unverified,
    )


def _earlier_states(session: Session, checkpoint: Checkpoint) -> Iterator[Ancestor]:
    states = session.checkpoints.filter(
        kind=CheckpointKind.STATE, state=CheckpointState.COMMITTED, created_at__lt=checkpoint.created_at
    )
    if checkpoint.step is not None:
        states = states.filter(step__lt=checkpoint.step)
    for state in states.order_by("-step", "-created_at")[:MAX_ANCESTORS]:
        yield _ancestor(state)


def _sources(project: Project, checkpoint: Checkpoint) -> Iterator[Ancestor]:
    """The states that one model after the other was created from, or copied from, until one began at its base model."""
    seen = {checkpoint.id}
    while len(seen) <= MAX_ANCESTORS:
        named = TinkerCheckpoint.objects.filter(checkpoint_id=checkpoint.id).select_related("model").first()
        source: dict[str, Any] = (named.model.source if named else None) or {}
        if not source:
            return
        known = source.get("checkpoint_id") or source.get("copy_of")
        found = Checkpoint.objects.filter(id=known, session__project=project).exclude(id__in=seen).first()
        if found is None:
            yield Ancestor(checkpoint_id=None, session_id=None, kind=None, step=None, tinker_path=source.get("path"))
            return
        yield _ancestor(found, tinker_path=source.get("path"))
        seen.add(found.id)
        checkpoint = found


def _ancestor(checkpoint: Checkpoint, *, tinker_path: str | None = None) -> Ancestor:
    return Ancestor(
        checkpoint_id=checkpoint.id,
        session_id=checkpoint.session_id,
        kind=CheckpointKind(checkpoint.kind),
        step=checkpoint.step,
        tinker_path=tinker_path,
    )


def _digest(config: dict[str, Any]) -> str:
    return sha256(json.dumps(config, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
