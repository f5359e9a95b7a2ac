"""Checkpoints, the journal and the archive, to and from the object store, under the lease.

    upload:  hash -> ask for presigned URLs -> PUT all parts -> commit (the control plane writes the manifest)
    fetch:   GET beside -> verify every hash -> rename

The runtime holds no storage credential. A folder is never seen half written: it is made aside and renamed.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from tinkerscript.wire.checkpoints import CheckpointKind, ManifestFile
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import (
    ResumePoint,
    StoredFile,
    UploadCommit,
    UploadCommitted,
    UploadedFile,
    UploadFile,
    UploadOpen,
    UploadPlan,
)

from ..agent import Agent
from ..errors import ControlPlaneLost, ControlPlaneRefused, DiskFull, StoreFull, StoreUnavailable
from .transfer import Transfer, UrlRefused, file_sha256, transfer_open

ResultT = TypeVar("ResultT")

PATIENCE_S = 300.0  # how long the store may be away
PLANS = 3  # uploads of the same files that may be refused before the store counts as unavailable
RESERVE_BYTES = 256 << 20  # what the journal and the logs keep when weights fill the volume


async def checkpoint_upload(
    agent: Agent,
    folder: Path,
    kind: CheckpointKind,
    step: int,
    checkpoint_id: str | None = None,
    *,
    patience_s: float = PATIENCE_S,
    on_progress: Callable[[], None] | None = None,
) -> str:
    """Publish ``folder`` as a checkpoint (``checkpoint_id`` answers an order); the id of the committed checkpoint.

    ``on_progress`` is called, from any thread, whenever a part of a file is in the store.
    Safe to repeat: nothing can be read before the commit, and a commit whose answer was lost is answered again.
    Raises StoreUnavailable (the session's record then says so), LeaseLost, ControlPlaneLost, ControlPlaneRefused.
    """
    files = await asyncio.to_thread(_files_hash, folder)
    opening = UploadOpen(kind=kind, checkpoint_id=checkpoint_id, step=step, files=files)
    committed = await _upload(agent, folder, opening, patience_s, on_progress)
    if committed.checkpoint_id is None:
        raise StoreUnavailable("the control plane committed the upload but named no checkpoint")
    return committed.checkpoint_id


async def checkpoint_fetch(
    point: ResumePoint,
    folder: Path,
    *,
    patience_s: float = PATIENCE_S,
    on_progress: Callable[[], None] | None = None,
) -> None:
    """Have the files of ``point`` in ``folder``. A local copy whose hashes all match is left as it is.

    An interrupted fetch goes on where it stopped. ``on_progress`` is called, from any thread, whenever a file is here.
    Raises StoreUnavailable, DiskFull.
    """
    for file in point.files:
        _check_path(file.path)
    if await asyncio.to_thread(_matches, point.files, folder):
        return
    aside = _beside(folder, "fetching")
    have_bytes = sum(path.stat().st_size for path in aside.rglob("*") if path.is_file()) if aside.exists() else 0
    room_require(folder.parent, sum(file.size_bytes for file in point.files) - have_bytes)
    await _get_all([(file, aside / file.path) for file in point.files], patience_s, on_progress)
    _publish(aside, folder)


async def journal_replicate(
    agent: Agent, backup: Path, *, known_sha256: str = "", patience_s: float = PATIENCE_S
) -> str:
    """Upload a finished copy of the journal; its SHA-256, to be passed as ``known_sha256`` next time.

    An unchanged copy is not sent again. Raises as ``checkpoint_upload`` does.
    """
    sha256 = await asyncio.to_thread(file_sha256, backup)
    if sha256 != known_sha256:
        file = ManifestFile(path=backup.name, size_bytes=backup.stat().st_size, sha256=sha256)
        await _upload(agent, backup.parent, UploadOpen(kind="journal", files=[file]), patience_s)
    return sha256


async def archive_upload(
    agent: Agent,
    path: Path,
    part: int,
    episodes: int,
    *,
    patience_s: float = PATIENCE_S,
    on_progress: Callable[[], None] | None = None,
) -> None:
    """Publish the file ``path`` as number ``part`` of the archive. Safe to repeat. Raises as ``checkpoint_upload``."""
    sha256 = await asyncio.to_thread(file_sha256, path)
    file = ManifestFile(path=path.name, size_bytes=path.stat().st_size, sha256=sha256)
    opening = UploadOpen(kind="archive", part=part, episodes=episodes, files=[file])
    await _upload(agent, path.parent, opening, patience_s, on_progress)


async def journal_fetch(stored: StoredFile, path: Path, *, patience_s: float = PATIENCE_S) -> None:
    """Bring the last replicated journal to ``path``, whole or not at all. Raises StoreUnavailable, DiskFull."""
    room_require(path.parent, stored.size_bytes)
    aside = _beside(path, "fetching")
    await _get_all([(stored, aside)], patience_s)
    aside.replace(path)


@contextmanager
def folder_publish(folder: Path, size_bytes: int = 0) -> Iterator[Path]:
    """Yield an empty folder aside to write to; it becomes ``folder`` in one rename when the block ends well.

    ``size_bytes`` is what will be written, if known. Raises DiskFull before anything is written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    room_require(folder.parent, size_bytes)
    aside = _beside(folder, "writing")
    shutil.rmtree(aside, ignore_errors=True)  # of a runtime that was killed
    aside.mkdir()
    try:
        yield aside
        _publish(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def room_require(folder: Path, size_bytes: int) -> None:
    """Raises DiskFull unless the volume of ``folder`` can take ``size_bytes`` and keep its reserve."""
    folder.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < size_bytes + RESERVE_BYTES:
        raise DiskFull(f"{folder} has {free_bytes >> 20} MiB free; {(size_bytes + RESERVE_BYTES) >> 20} MiB are needed")


async def _upload(
    agent: Agent, folder: Path, opening: UploadOpen, patience_s: float, on_progress: Callable[[], None] | None = None
) -> UploadCommitted:
    try:
        for _ in range(PLANS):
            plan = await agent.call("/v1/runtime/uploads", opening, UploadPlan, deadline_s=patience_s)
            # A second plan is for the same checkpoint, not for one more.
            opening = opening.model_copy(update={"checkpoint_id": plan.checkpoint_id})
            commit = f"/v1/runtime/uploads/{plan.upload_id}/commit"
            try:
                etags = await _put_all(folder, opening.files, plan.files, patience_s, on_progress)
                return await agent.call(commit, UploadCommit(files=etags), UploadCommitted, deadline_s=patience_s)
            except (UrlRefused, ControlPlaneRefused) as error:
                refused = error  # expired URLs, or objects that are not what was announced: write them again
        raise StoreUnavailable(f"{PLANS} uploads in a row were refused: {refused}") from refused
    except StoreUnavailable as error:
        fault = await _named(agent, opening, error)
        names = {"journal": "copy of the journal", "archive": f"part {opening.part} of the archive"}
        what = names.get(opening.kind, f"{opening.kind} of step {opening.step}")
        data = {"name": "storage_unavailable", "what": what, "reason": str(fault), "hint": fault.hint}
        agent.report(EventKind.EVENT, data, key=f"storage_unavailable {what} {time.time_ns()}")
        raise fault from None


async def _named(agent: Agent, opening: UploadOpen, fault: StoreUnavailable) -> StoreUnavailable:
    """What the control plane knows of a store that did not take a file: one with a full disk says no more than 500."""
    if isinstance(fault, StoreFull):
        return fault
    try:
        await agent.call("/v1/runtime/uploads", opening, UploadPlan, deadline_s=0)
    except StoreFull as known:
        return known
    except (StoreUnavailable, ControlPlaneLost, ControlPlaneRefused):
        pass
    return fault


async def _put_all(
    folder: Path,
    files: list[ManifestFile],
    targets: list[UploadFile],
    patience_s: float,
    on_progress: Callable[[], None] | None,
) -> list[UploadedFile]:
    sizes = {file.path: file.size_bytes for file in files}
    if {target.path for target in targets} != set(sizes):
        raise StoreUnavailable("the control plane's upload plan is not for the files that were named")
    async with transfer_open(patience_s) as transfer:
        jobs = [job for target in targets for job in _part_jobs(transfer, folder, target, sizes[target.path])]
        etags = iter(await transfer.run([_telling(job, on_progress) for job in jobs]))
    return [UploadedFile(path=target.path, etags=[next(etags) for _ in target.part_urls]) for target in targets]


def _part_jobs(transfer: Transfer, folder: Path, target: UploadFile, size_bytes: int) -> Iterator[partial[str]]:
    for index, url in enumerate(target.part_urls):
        offset = index * target.part_size_bytes
        part_bytes = min(target.part_size_bytes, size_bytes - offset)
        yield partial(transfer.part_put, url, folder / target.path, offset, part_bytes)


async def _get_all(
    wanted: list[tuple[StoredFile, Path]], patience_s: float, on_progress: Callable[[], None] | None = None
) -> None:
    try:
        async with transfer_open(patience_s) as transfer:
            jobs = [partial(transfer.file_get, stored, dest) for stored, dest in wanted]
            await transfer.run([_telling(job, on_progress) for job in jobs])
    except UrlRefused as refused:
        raise StoreUnavailable(f"a download was refused: {refused}") from refused


def _telling(job: Callable[[], ResultT], on_progress: Callable[[], None] | None) -> Callable[[], ResultT]:
    def told() -> ResultT:
        result = job()
        if on_progress is not None:
            on_progress()
        return result

    return told


def _files_hash(folder: Path) -> list[ManifestFile]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        ManifestFile(path=path.relative_to(folder).as_posix(), size_bytes=path.stat().st_size, sha256=file_sha256(path))
        for path in paths
    ]


def _matches(files: list[StoredFile], folder: Path) -> bool:
    paths = [(file, folder / file.path) for file in files]
    # All the sizes first: a copy that differs mostly shows there, and no gigabyte is read for it.
    if not all(path.is_file() and path.stat().st_size == file.size_bytes for file, path in paths):
        return False
    return all(file_sha256(path) == file.sha256 for file, path in paths)


def _check_path(path: str) -> None:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or path in ("", "."):
        raise StoreUnavailable(f"the checkpoint names a file outside its folder: {path!r}")


def _beside(path: Path, what: str) -> Path:
    return path.parent / f".{path.name}.{what}"


def _publish(aside: Path, folder: Path) -> None:
    replaced = _beside(folder, "replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if folder.exists():
        folder.rename(replaced)
    aside.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)
