"""Checkpoints of a session."""

from functools import partial

from api.presenters import checkpoint_view
from api.rest.authentication import Caller
from console.sessions.checkpoints import checkpoints, removal
from console.tinker import lineage
from console.tinker.checkpoints import named_publish
from tinkerscript.wire.checkpoints import (
    CheckpointCreate,
    CheckpointDownload,
    CheckpointList,
    CheckpointProvenance,
    CheckpointUpdate,
    CheckpointView,
)


def checkpoint_create(caller: Caller, session_id: str, body: CheckpointCreate) -> CheckpointView:
    """Ask the session's runtime to write a checkpoint; read it again until it is committed."""
    return checkpoint_view(
        checkpoints.checkpoint_request(
            project=caller.project, session_id=session_id, kind=body.kind
        )
    )


def checkpoint_list(caller: Caller, session_id: str) -> CheckpointList:
    """The session's checkpoints, newest first."""
    listed = checkpoints.checkpoint_list(project=caller.project, session_id=session_id)
    rows = listed.select_related("tinker")  # each is shown with its path
    return CheckpointList(items=[checkpoint_view(row) for row in rows])


def checkpoint_get(caller: Caller, session_id: str, checkpoint_id: str) -> CheckpointView:
    """One checkpoint."""
    return checkpoint_view(
        checkpoints.checkpoint_get(
            project=caller.project, session_id=session_id, checkpoint_id=checkpoint_id
        )
    )


def checkpoint_update(
    caller: Caller, session_id: str, checkpoint_id: str, body: CheckpointUpdate
) -> CheckpointView:
    """Pin a checkpoint, so that it is kept whatever its age, or let it go."""
    ids = {"session_id": session_id, "checkpoint_id": checkpoint_id}
    return checkpoint_view(
        checkpoints.checkpoint_pin(project=caller.project, pinned=body.pinned, **ids)
    )


def checkpoint_publish(caller: Caller, session_id: str, checkpoint_id: str) -> CheckpointView:
    """Let every project of this server read a checkpoint that a tinker client named."""
    return _published(caller, session_id, checkpoint_id, public=True)


def checkpoint_unpublish(caller: Caller, session_id: str, checkpoint_id: str) -> CheckpointView:
    """Let its own project alone read it again."""
    return _published(caller, session_id, checkpoint_id, public=False)


def _published(
    caller: Caller, session_id: str, checkpoint_id: str, *, public: bool
) -> CheckpointView:
    find = partial(
        checkpoints.checkpoint_get,
        project=caller.project,
        session_id=session_id,
        checkpoint_id=checkpoint_id,
    )
    named_publish(checkpoint=find(), public=public)
    return checkpoint_view(find())


def checkpoint_delete(caller: Caller, session_id: str, checkpoint_id: str) -> None:
    """Remove a checkpoint."""
    removal.checkpoint_delete(
        project=caller.project, session_id=session_id, checkpoint_id=checkpoint_id
    )


def checkpoint_download(caller: Caller, session_id: str, checkpoint_id: str) -> CheckpointDownload:
    """Presigned URLs of a committed checkpoint's files."""
    return checkpoints.checkpoint_download(
        project=caller.project, session_id=session_id, checkpoint_id=checkpoint_id
    )


def checkpoint_provenance(
    caller: Caller, session_id: str, checkpoint_id: str
) -> CheckpointProvenance:
    """What a checkpoint was made of: base model, saved states before it, options, and the hashes of
    its files.
    """
    return lineage.checkpoint_provenance(
        project=caller.project, session_id=session_id, checkpoint_id=checkpoint_id
    )
