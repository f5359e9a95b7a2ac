"""From which saved states a checkpoint came, and what else it was made of.

A session of episodes goes on from its latest committed state whenever a runtime starts, so each
earlier state is an ancestor: the record has those that are deleted by now too. Before them comes
the checkpoint that the session itself began from, and what that came from. A Tinker client's model
began from a saved state, from its base model or from weights that a client uploaded; what it loads
later is not recorded.
"""

import json
from hashlib import sha256
from typing import Any

from console.live.selectors import events_named
from console.sessions.checkpoints.checkpoints import checkpoint_get
from console.sessions.models import Checkpoint, Session
from console.tinker.models import TinkerCheckpoint
from console.users.models import Project
from tinkerscript.wire.checkpoints import (
    Ancestor,
    AncestryEnd,
    CheckpointKind,
    CheckpointProvenance,
    CheckpointState,
    ManifestFile,
)
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import SessionKind

MAX_ANCESTORS = 20


def checkpoint_provenance(
    *, project: Project, session_id: str, checkpoint_id: str
) -> CheckpointProvenance:
    """What the checkpoint was made of, as recorded. Raises NotFound."""
    checkpoint = checkpoint_get(project=project, session_id=session_id, checkpoint_id=checkpoint_id)
    session = checkpoint.session
    is_tinker = session.kind == SessionKind.TINKER
    ancestors, end = _ancestry(project, checkpoint)
    config = SessionConfig.model_validate(session.config)
    return CheckpointProvenance(
        checkpoint_id=checkpoint.id,
        session_id=session.id,
        session_name=session.name or session.id,
        kind=CheckpointKind(checkpoint.kind),
        step=checkpoint.step,
        base_model=session.base_model,
        ancestors=ancestors,
        ancestry_end=end,
        loads_recorded=not is_tinker,
        config=config,
        config_sha256=_digest(config.model_dump(mode="json")),
        created_at=checkpoint.created_at,
        committed_at=checkpoint.committed_at,
        files=[ManifestFile(**file) for file in checkpoint.files],
        hashes_checked=checkpoint.state == CheckpointState.COMMITTED and not checkpoint.unverified,
    )


def _ancestry(project: Project, checkpoint: Checkpoint) -> tuple[list[Ancestor], AncestryEnd]:
    """Through every session that began from a checkpoint of another one."""
    ancestors: list[Ancestor] = []
    while True:
        session = checkpoint.session
        is_tinker = session.kind == SessionKind.TINKER
        earlier, end = (
            _sources(project, checkpoint) if is_tinker else _earlier_states(session, checkpoint)
        )
        ancestors += earlier
        began = session.started_from
        if end is not AncestryEnd.BASE_MODEL or began is None:
            break
        known = Checkpoint.objects.filter(id=began["checkpoint_id"], session__project=project)
        found = known.select_related("session").first()
        ancestors.append(Ancestor(**began, is_deleted=found is None))
        if found is None or len(ancestors) > MAX_ANCESTORS:
            end = AncestryEnd.UNKNOWN
            break
        checkpoint = found
    return ancestors[:MAX_ANCESTORS], AncestryEnd.UNKNOWN if len(ancestors) > MAX_ANCESTORS else end


def _earlier_states(session: Session, checkpoint: Checkpoint) -> tuple[list[Ancestor], AncestryEnd]:
    """The states that were committed before it and have no later step: it holds what they held, or
    went on from it.
    """
    committed = events_named(session_id=session.id, name="checkpoint_committed").filter(
        at__lt=checkpoint.created_at, data__kind=CheckpointKind.STATE
    )
    steps = {
        data["checkpoint_id"]: data["step"] for data in committed.values_list("data", flat=True)
    }
    steps.pop(checkpoint.id, None)
    latest = sorted(steps.items(), key=lambda one: one[1], reverse=True)
    before = [
        (id_, step) for id_, step in latest if checkpoint.step is None or step <= checkpoint.step
    ]
    kept = set(
        Checkpoint.objects.filter(session=session, id__in=steps).values_list("id", flat=True)
    )
    ancestors = [
        Ancestor(
            checkpoint_id=id_,
            session_id=session.id,
            kind=CheckpointKind.STATE,
            step=step,
            is_deleted=id_ not in kept,
        )
        for id_, step in before[:MAX_ANCESTORS]
    ]
    return ancestors, AncestryEnd.BASE_MODEL if len(
        before
    ) <= MAX_ANCESTORS else AncestryEnd.UNKNOWN


def _sources(project: Project, checkpoint: Checkpoint) -> tuple[list[Ancestor], AncestryEnd]:
    """The states that one model after the other was created or copied from, and what the first of
    them began at.
    """
    ancestors: list[Ancestor] = []
    seen = {checkpoint.id}
    while len(ancestors) < MAX_ANCESTORS:
        named = (
            TinkerCheckpoint.objects.filter(checkpoint_id=checkpoint.id)
            .select_related("model")
            .first()
        )
        source: dict[str, Any] = (named.model.source if named else None) or {}
        if not source:
            return ancestors, AncestryEnd.UPLOAD if _is_uploaded(
                checkpoint
            ) else AncestryEnd.BASE_MODEL
        known = source.get("checkpoint_id") or source.get("copy_of")
        found = (
            Checkpoint.objects.filter(id=known, session__project=project)
            .exclude(id__in=seen)
            .first()
        )
        if found is None:
            path = source.get("path")
            unknown = Ancestor(
                checkpoint_id=None, session_id=None, kind=None, step=None, tinker_path=path
            )
            return [*ancestors, unknown], AncestryEnd.UNKNOWN
        ancestors.append(_ancestor(found, tinker_path=source.get("path")))
        seen.add(found.id)
        checkpoint = found
    return ancestors, AncestryEnd.UNKNOWN


def _is_uploaded(checkpoint: Checkpoint) -> bool:
    uploaded = events_named(session_id=checkpoint.session_id, name="checkpoint_uploaded")
    return uploaded.filter(data__checkpoint_id=checkpoint.id).exists()


def _ancestor(checkpoint: Checkpoint, *, tinker_path: str | None) -> Ancestor:
    return Ancestor(
        checkpoint_id=checkpoint.id,
        session_id=checkpoint.session_id,
        kind=CheckpointKind(checkpoint.kind),
        step=checkpoint.step,
        tinker_path=tinker_path,
    )


def _digest(config: dict[str, Any]) -> str:
    return sha256(json.dumps(config, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
