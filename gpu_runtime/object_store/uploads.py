"""Checkpoints, the journal and the archive, to and from the object store, under the lease.

    upload:  hash -> ask for presigned URLs -> PUT all parts -> commit (the control plane writes the manifest)
    fetch:   GET to a staging folder -> verify every hash -> rename

The runtime holds no storage credential.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.errors import (
    CheckpointDeleted,
    ControlPlaneLost,
    ControlPlaneRefused,
    StoreFull,
    StoreUnavailable,
    UploadRefused,
)
from gpu_runtime.health.volume import publish, room_require, staging_path
from gpu_runtime.processes.low_priority import run_at_low_priority
from tinkerscript.wire.checkpoints import CheckpointKind, ManifestFile
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import (
    AnyUpload,
    ArchiveUpload,
    CheckpointUpload,
    DocumentPlace,
    EpisodesUpload,
    JournalUpload,
    PackedEpisode,
    ResumePoint,
    StoredFile,
    UploadCommit,
    UploadCommitted,
    UploadedFile,
    UploadFile,
    UploadTargets,
)

from .file_changes import changes_apply
from .transfer import Transfer, UrlRefused, file_sha256, transfer_open

ResultT = TypeVar("ResultT")

PATIENCE_S = 300.0  # how long the store may be away
# uploads of the same files that may be refused before the store counts as unavailable
MAX_UPLOADS = 3


class ObjectStore:
    """The store as one session may use it. ``patience_s`` is how long it may be away."""

    def __init__(self, agent: Agent, *, patience_s: float = PATIENCE_S) -> None:
        self._agent, self.patience_s = agent, patience_s

    async def checkpoint_upload(
        self,
        folder: Path,
        kind: CheckpointKind,
        step: int,
        checkpoint_id: str | None = None,
        *,
        on_progress: Callable[[], None] | None = None,
    ) -> str:
        """Publish ``folder`` as a checkpoint (``checkpoint_id``: of the order it fulfils); returns
        the committed id.

        ``on_progress`` is called, from any thread, whenever a part of a file is in the store. Safe
        to repeat: nothing can be read before the commit, and a commit whose response was lost may
        be sent again. Raises StoreUnavailable (the session's record then shows it), LeaseLost,
        ControlPlaneLost, ControlPlaneRefused.
        """
        files = await asyncio.to_thread(_files_hash, folder)
        opening = CheckpointUpload(kind=kind, checkpoint_id=checkpoint_id, step=step, files=files)
        committed = await self._upload(folder, opening, on_progress)
        if committed.checkpoint_id is None:
            raise StoreUnavailable("the control plane committed the upload but named no checkpoint")
        return committed.checkpoint_id

    async def checkpoint_fetch(
        self,
        point: ResumePoint,
        folder: Path,
        *,
        verified: str | None = None,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        """Have the files of ``point`` in ``folder``. A local copy whose hashes all match is left as
        it is.

        ``verified`` is a file of which ``checkpoint_file`` has just looked at the hash. An
        interrupted fetch goes on where it stopped. ``on_progress`` is called, from any thread,
        after each file. Raises CheckpointDeleted, StoreUnavailable, DiskFull.
        """
        for file in point.files:
            _check_path(file.path)
        if not point.files:
            raise CheckpointDeleted("the checkpoint was deleted")
        if await asyncio.to_thread(
            run_at_low_priority, partial(_matches, point.files, folder, verified)
        ):
            return
        staging = staging_path(folder, "fetching")
        have_bytes = (
            sum(path.stat().st_size for path in staging.rglob("*") if path.is_file())
            if staging.exists()
            else 0
        )
        room_require(folder.parent, sum(file.size_bytes for file in point.files) - have_bytes)
        await _get_all(
            [(file, staging / file.path) for file in point.files], self.patience_s, on_progress
        )
        publish(staging, folder)

    async def checkpoint_file(
        self,
        point: ResumePoint,
        path: str,
        folder: Path,
        *,
        on_progress: Callable[[], None] | None = None,
    ) -> Path:
        """Have one file of ``point``, before ``checkpoint_fetch`` has all: in ``folder``, or where
        that fetch goes on.

        Raises as ``checkpoint_fetch``.
        """
        [file] = [file for file in point.files if file.path == path]
        _check_path(path)
        if await asyncio.to_thread(_matches, [file], folder):
            return folder / path
        staging = staging_path(folder, "fetching")
        if not (staging / path).exists():
            room_require(folder.parent, sum(file.size_bytes for file in point.files))
        await _get_all([(file, staging / path)], self.patience_s, on_progress)
        return staging / path

    async def journal_replicate(self, path: Path, *, follows: Sequence[str] = ()) -> str:
        """Upload a whole copy of the journal, or what changed after the files with the SHA-256s
        ``follows``.

        Returns the file's own SHA-256. Raises as ``checkpoint_upload`` does.
        """
        file = await asyncio.to_thread(_file_hash, path, path.name)
        await self._upload(path.parent, JournalUpload(files=[file], follows=list(follows)))
        return file.sha256

    async def archive_upload(
        self, path: Path, part: int, episodes: int, *, on_progress: Callable[[], None] | None = None
    ) -> None:
        """Publish the file ``path`` as part number ``part`` of the archive. Safe to repeat.

        Raises as ``checkpoint_upload``.
        """
        file = await asyncio.to_thread(_file_hash, path, path.name)
        opening = ArchiveUpload(part=part, episodes=episodes, files=[file])
        await self._upload(path.parent, opening, on_progress)

    async def episodes_upload(self, path: Path, packed: list[PackedEpisode]) -> None:
        """Publish the documents of ended episodes that the file ``path`` holds. Safe to repeat.

        Raises as ``checkpoint_upload``.
        """
        file = await asyncio.to_thread(_file_hash, path, path.name)
        await self._upload(path.parent, EpisodesUpload(packed=packed, files=[file]))

    async def ranges_read(self, places: Sequence[DocumentPlace]) -> list[bytes]:
        """The bytes at these places, in their order. Raises StoreUnavailable."""
        try:
            async with transfer_open(self.patience_s) as transfer:
                jobs = [
                    partial(transfer.range_get, each.url, each.offset, each.size_bytes)
                    for each in places
                ]
                return await transfer.run(jobs)
        except UrlRefused as refused:
            raise StoreUnavailable(
                f"a document of an episode could not be read: {refused}"
            ) from refused

    async def journal_fetch(
        self, stored: StoredFile, path: Path, changes: Sequence[StoredFile] = ()
    ) -> None:
        """Bring the last replicated journal to ``path``, whole or not at all. Raises
        StoreUnavailable, DiskFull.
        """
        room_require(path.parent, stored.size_bytes + sum(file.size_bytes for file in changes))
        staging, folder = staging_path(path, "fetching"), staging_path(path, "changes")
        shutil.rmtree(folder, ignore_errors=True)  # of a runtime that was killed
        pieces = [folder / str(number) for number, _ in enumerate(changes)]
        try:
            await _get_all([(stored, staging), *zip(changes, pieces, strict=True)], self.patience_s)
            for piece in pieces:
                await asyncio.to_thread(changes_apply, staging, piece)
            staging.replace(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _upload(
        self, folder: Path, opening: AnyUpload, on_progress: Callable[[], None] | None = None
    ) -> UploadCommitted:
        try:
            for _ in range(MAX_UPLOADS):
                targets = await self._agent.call(
                    "/v1/runtime/uploads", opening, UploadTargets, deadline_s=self.patience_s
                )
                # a second try is for the same checkpoint, not for one more
                if isinstance(opening, CheckpointUpload):
                    opening = opening.model_copy(update={"checkpoint_id": targets.checkpoint_id})
                commit = f"/v1/runtime/uploads/{targets.upload_id}/commit"
                try:
                    etags = await _put_all(
                        folder, opening.files, targets.files, self.patience_s, on_progress
                    )
                    return await self._agent.call(
                        commit,
                        UploadCommit(files=etags),
                        UploadCommitted,
                        deadline_s=self.patience_s,
                    )
                except (UrlRefused, ControlPlaneRefused) as error:
                    # expired URLs, or objects that are not what was announced: write them again
                    refused = error
            raise UploadRefused(
                f"{MAX_UPLOADS} uploads in a row were refused: {refused}"
            ) from refused
        except StoreUnavailable as error:
            fault = await self._cause_ask(opening, error)
            what = _description(opening)
            data = {
                "name": "storage_unavailable",
                "what": what,
                "reason": str(fault),
                "hint": fault.hint,
            }
            self._agent.report(
                EventKind.EVENT, data, key=f"storage_unavailable {what} {time.time_ns()}"
            )
            raise fault from None

    async def _cause_ask(self, opening: AnyUpload, fault: StoreUnavailable) -> StoreUnavailable:
        """StoreFull if that is why; the control plane knows: a store whose disk is full just
        responds with 500.

        It says so when an upload is opened, so one is; the next try for the same files opens it
        again and adds nothing.
        """
        if isinstance(fault, StoreFull):
            return fault
        try:
            await self._agent.call("/v1/runtime/uploads", opening, UploadTargets, deadline_s=0)
        except StoreFull as known:
            return known
        except (StoreUnavailable, ControlPlaneLost, ControlPlaneRefused):
            pass
        return fault


def _description(opening: AnyUpload) -> str:
    match opening:
        case CheckpointUpload():
            return f"{opening.kind} of step {opening.step}"
        case ArchiveUpload():
            return f"part {opening.part} of the archive"
        case JournalUpload():
            return "copy of the journal"
        case EpisodesUpload():
            return f"tokens of {len(opening.packed)} episodes"


async def _put_all(
    folder: Path,
    files: list[ManifestFile],
    targets: list[UploadFile],
    patience_s: float,
    on_progress: Callable[[], None] | None,
) -> list[UploadedFile]:
    sizes = {file.path: file.size_bytes for file in files}
    if {target.path for target in targets} != set(sizes):
        raise StoreUnavailable(
            "the control plane's upload targets are not for the files that were named"
        )
    async with transfer_open(patience_s) as transfer:
        jobs = [
            job
            for target in targets
            for job in _part_jobs(transfer, folder, target, sizes[target.path])
        ]
        etags = iter(await transfer.run([_with_progress(job, on_progress) for job in jobs]))
    return [
        UploadedFile(path=target.path, etags=[next(etags) for _ in target.part_urls])
        for target in targets
    ]


def _part_jobs(
    transfer: Transfer, folder: Path, target: UploadFile, size_bytes: int
) -> Iterator[partial[str]]:
    for index, url in enumerate(target.part_urls):
        offset = index * target.part_size_bytes
        part_bytes = min(target.part_size_bytes, size_bytes - offset)
        yield partial(transfer.part_put, url, folder / target.path, offset, part_bytes)


async def _get_all(
    wanted: list[tuple[StoredFile, Path]],
    patience_s: float,
    on_progress: Callable[[], None] | None = None,
) -> None:
    try:
        async with transfer_open(patience_s) as transfer:
            jobs = [partial(transfer.file_get, stored, dest) for stored, dest in wanted]
            await transfer.run([_with_progress(job, on_progress) for job in jobs])
    except UrlRefused as refused:
        raise StoreUnavailable(f"a download was refused: {refused}") from refused


def _with_progress(
    job: Callable[[], ResultT], on_progress: Callable[[], None] | None
) -> Callable[[], ResultT]:
    def run() -> ResultT:
        result = job()
        if on_progress is not None:
            on_progress()
        return result

    return run


def _files_hash(folder: Path) -> list[ManifestFile]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [_file_hash(path, path.relative_to(folder).as_posix()) for path in paths]


def _file_hash(path: Path, name: str) -> ManifestFile:
    return ManifestFile(path=name, size_bytes=path.stat().st_size, sha256=file_sha256(path))


def _matches(files: list[StoredFile], folder: Path, verified: str | None = None) -> bool:
    paths = [(file, folder / file.path) for file in files]
    # All the sizes first: a copy that differs mostly shows there, and no gigabyte is read for it.
    if not all(path.is_file() and path.stat().st_size == file.size_bytes for file, path in paths):
        return False
    return all(file_sha256(path) == file.sha256 for file, path in paths if file.path != verified)


def _check_path(path: str) -> None:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or path in ("", "."):
        raise StoreUnavailable(f"the checkpoint names a file outside its folder: {path!r}")
