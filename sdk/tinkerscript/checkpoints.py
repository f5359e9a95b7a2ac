"""From "give me my model" to a verified folder on this disk.

Files arrive under ``path/.partial`` and move to their names only when the hash of every one is right, so the folder
never holds half a model. A second attempt resumes by HTTP Range what the first one left.
"""

import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from .errors import CheckpointFailed, DiskFull, DownloadFailed, PathInUse, WaitTimeout
from .fetch import Fetch, sha256_of
from .states import raise_if_over
from .wire.checkpoints import CheckpointKind, CheckpointState, CheckpointView, DownloadFile

if TYPE_CHECKING:
    from .session import Session

POLL_S = 0.5
PARTIAL = ".partial"
# What a loader picks up by its name alone: left behind by another model, it would be loaded instead of this one.
WEIGHT_PATTERNS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json")


@dataclass(frozen=True)
class TunedModel(PathLike[str]):
    """A downloaded model: usable wherever a path is, e.g. ``AutoModelForCausalLM.from_pretrained(model.path)``."""

    path: Path
    step: int
    checkpoint_id: str

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


def make(session: "Session", kind: CheckpointKind, *, deadline: float) -> CheckpointView:
    """Ask for a checkpoint and wait until it is committed. ``deadline`` is of time.monotonic().

    Raises CheckpointFailed, SessionFailed, SessionEnded, WaitTimeout.
    """
    checkpoint = session.when_ready(lambda: session.checkpoint_request(kind))
    while checkpoint.state is not CheckpointState.COMMITTED:
        if checkpoint.state is CheckpointState.FAILED:
            raise CheckpointFailed(f"Checkpoint {checkpoint.id} failed: {checkpoint.failure or 'no cause was given'}")
        if time.monotonic() >= deadline:
            raise WaitTimeout(
                f"Checkpoint {checkpoint.id} is still {checkpoint.state.value}.",
                hint=f"It goes on. Fetch it later: tinkerscript download {session.id}",
            )
        view = session.status()
        session.pause(POLL_S)
        checkpoint = session.checkpoint(checkpoint.id)
        if checkpoint.state is not CheckpointState.COMMITTED:
            raise_if_over(view)
    return checkpoint


def download(
    session: "Session", checkpoint_id: str, path: str | PathLike[str], *, deadline: float, progress: bool
) -> TunedModel:
    """Download a committed checkpoint into the folder ``path``. Raises as Session.download_tuned_model() does."""
    target = Path(path).expanduser().absolute()
    plan = session.checkpoint_urls(checkpoint_id)
    _refuse_unsafe(plan.files)
    _refuse_other_model(target, plan.files)
    missing = [file for file in plan.files if not _is_there(target / file.path, file)]
    partial = target / PARTIAL
    _refuse_full_disk(target, partial, missing)
    partial.mkdir(parents=True, exist_ok=True)
    Fetch(
        refresh=lambda: {file.path: file.url for file in session.checkpoint_urls(checkpoint_id).files},
        closed=lambda: session.closed,
        deadline=deadline,
        progress=progress,
    ).run([(file, partial / partial_name(file)) for file in missing])
    for file in missing:
        final = target / file.path
        final.parent.mkdir(parents=True, exist_ok=True)
        (partial / partial_name(file)).replace(final)
    shutil.rmtree(partial, ignore_errors=True)
    return TunedModel(path=target, step=plan.step, checkpoint_id=plan.checkpoint_id)


def partial_name(file: DownloadFile) -> str:
    """Where a file gathers. The hash is in the name: bytes of another checkpoint are never resumed from."""
    return f"{file.path.replace('/', '__')}.{file.sha256[:16]}"


def _is_there(final: Path, file: DownloadFile) -> bool:
    return final.is_file() and final.stat().st_size == file.size_bytes and sha256_of(final) == file.sha256


def _refuse_unsafe(files: Iterable[DownloadFile]) -> None:
    """A path from the network must stay inside the folder."""
    for file in files:
        path = PurePosixPath(file.path)
        parts_ok = path.parts and not path.is_absolute() and ".." not in path.parts and path.parts[0] != PARTIAL
        if not parts_ok or "\\" in file.path or ":" in file.path or "\0" in file.path:
            raise DownloadFailed(f"The checkpoint names a file outside its folder: {file.path!r}. Nothing was written.")


def _refuse_other_model(target: Path, files: Iterable[DownloadFile]) -> None:
    if target.exists() and not target.is_dir():
        raise PathInUse(f"{target} is a file.", hint="Give the path of a folder.")
    expected = {file.path for file in files}
    found = {p.name for pattern in WEIGHT_PATTERNS for p in target.glob(pattern)} - expected
    if found:
        raise PathInUse(f"{target} holds weights of another model: {', '.join(sorted(found))}. Nothing was written.")


def _refuse_full_disk(target: Path, partial: Path, missing: Iterable[DownloadFile]) -> None:
    needed = 0
    for file in missing:
        begun = partial / partial_name(file)
        needed += file.size_bytes - min(file.size_bytes, begun.stat().st_size if begun.is_file() else 0)
    existing = next(folder for folder in (target, *target.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise DiskFull(
            f"It needs {needed / 1e6:.1f} MB more, {existing} has {free / 1e6:.1f} MB free. Nothing was written.",
            hint="Free space or choose another path. The checkpoint is kept on the server.",
        )
