"""From "give me my model" to a verified folder on this disk, which never holds half a model."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tinkerscript.connection.session_api import SessionApi, raise_if_over
from tinkerscript.errors import CheckpointFailed, PathInUse, WaitTimeout
from tinkerscript.wire.checkpoints import (
    CheckpointKind,
    CheckpointState,
    CheckpointView,
    DownloadFile,
)

from .folder import folder_fill, folder_of

POLL_INTERVAL_S = 0.5
# What a loader picks up by its name alone: left behind by another model, it would be loaded instead
# of this one.
WEIGHT_PATTERNS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json")


@dataclass(frozen=True)
class TunedModel(PathLike[str]):
    """A downloaded model: usable wherever a path is, e.g.
    ``AutoModelForCausalLM.from_pretrained(model.path)``.
    """

    path: Path
    step: int
    checkpoint_id: str

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


def make(session: SessionApi, kind: CheckpointKind, *, deadline: float) -> CheckpointView:
    """Ask for a checkpoint and wait until it is committed. ``deadline`` is of time.monotonic().

    Raises CheckpointFailed, SessionFailed, SessionEnded, WaitTimeout.
    """
    checkpoint = session.when_ready(lambda: session.checkpoint_request(kind))
    while checkpoint.state is not CheckpointState.COMMITTED:
        if checkpoint.state is CheckpointState.FAILED:
            raise CheckpointFailed(
                f"Checkpoint {checkpoint.id} failed: {checkpoint.failure or 'no cause was given'}"
            )
        if time.monotonic() >= deadline:
            raise WaitTimeout(
                f"Checkpoint {checkpoint.id} is still {checkpoint.state.value}.",
                hint=f"It goes on. Fetch it later: tinkerscript download {session.id}",
            )
        view = session.status()
        session.pause(POLL_INTERVAL_S)
        checkpoint = session.checkpoint(checkpoint.id)
        if checkpoint.state is not CheckpointState.COMMITTED:
            raise_if_over(view)
    return checkpoint


def download(
    session: SessionApi,
    checkpoint_id: str,
    path: str | PathLike[str],
    *,
    deadline: float,
    progress: bool,
) -> TunedModel:
    """Download a committed checkpoint into the folder ``path``. Raises as
    Session.download_tuned_model() does.
    """
    target = folder_of(path)
    listing = session.checkpoint_urls(checkpoint_id)
    _refuse_other_model(target, listing.files)
    folder_fill(
        session,
        target,
        listing.files,
        refresh=lambda: session.checkpoint_urls(checkpoint_id).files,
        deadline=deadline,
        progress=progress,
    )
    return TunedModel(path=target, step=listing.step, checkpoint_id=listing.checkpoint_id)


def _refuse_other_model(target: Path, files: Iterable[DownloadFile]) -> None:
    expected = {file.path for file in files}
    found = {p.name for pattern in WEIGHT_PATTERNS for p in target.glob(pattern)} - expected
    if found:
        raise PathInUse(
            f"{target} holds weights of another model: {', '.join(sorted(found))}. Nothing was "
            "written."
        )


def model_to_reuse(session: SessionApi) -> CheckpointView | None:
    """The newest exported model, when no newer one can be made or none would differ."""
    view = session.status()
    for checkpoint in session.checkpoints():
        if (
            checkpoint.kind is CheckpointKind.MODEL
            and checkpoint.state is CheckpointState.COMMITTED
        ):
            return (
                checkpoint
                if view.state.is_terminal or checkpoint.step == view.policy_version
                else None
            )
    return None
