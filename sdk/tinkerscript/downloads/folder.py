"""Files of the store become a folder on this disk: in parallel, resumed, verified, all of them or
none.

They arrive under ``path/.partial`` and move to their names only when the hash of every one is
right. A second attempt resumes by HTTP Range what the first one left, and fetches nothing that is
there.
"""

import shutil
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path, PurePosixPath

from tinkerscript.arguments import path_of
from tinkerscript.connection.session_api import SessionApi
from tinkerscript.errors import DiskFull, DownloadFailed, PathInUse
from tinkerscript.wire.checkpoints import DownloadFile

from .fetch import Fetch, sha256_of

PARTIAL = ".partial"


def folder_of(path: str | PathLike[str]) -> Path:
    """Where a folder is or will be. Raises PathInUse for a file."""
    target = path_of("path", path).absolute()
    if target.exists() and not target.is_dir():
        raise PathInUse(f"{target} is a file.", hint="Give the path of a folder.")
    return target


def folder_fill(
    session: SessionApi,
    target: Path,
    files: Sequence[DownloadFile],
    *,
    refresh: Callable[[], Sequence[DownloadFile]],
    deadline: float,
    progress: bool,
) -> None:
    """Have ``files`` in ``target``; other files there are left alone. ``refresh`` returns them with
    fresh URLs.

    Raises DiskFull and DownloadFailed before anything is written, and as ``Fetch.run``.
    """
    _refuse_unsafe(files)
    missing = [file for file in files if not is_there(target / file.path, file)]
    partial = target / PARTIAL
    _refuse_full_disk(target, partial, missing)
    partial.mkdir(parents=True, exist_ok=True)
    fetch = Fetch(
        session,
        refresh=lambda: {file.path: file.url for file in refresh()},
        deadline=deadline,
        progress=progress,
    )
    fetch.run([(file, partial / _partial_name(file)) for file in missing])
    for file in missing:
        final = target / file.path
        final.parent.mkdir(parents=True, exist_ok=True)
        (partial / _partial_name(file)).replace(final)
    shutil.rmtree(partial, ignore_errors=True)


def is_there(final: Path, file: DownloadFile) -> bool:
    """Whether the file is here, whole: its hash is read."""
    return (
        final.is_file()
        and final.stat().st_size == file.size_bytes
        and sha256_of(final) == file.sha256
    )


def _partial_name(file: DownloadFile) -> str:
    """Where a file gathers. The hash is in the name: bytes of another checkpoint are never resumed
    from.
    """
    return f"{file.path.replace('/', '__')}.{file.sha256[:16]}"


def _refuse_unsafe(files: Iterable[DownloadFile]) -> None:
    """A path from the network must stay inside the folder."""
    for file in files:
        path = PurePosixPath(file.path)
        parts_ok = (
            path.parts
            and not path.is_absolute()
            and ".." not in path.parts
            and path.parts[0] != PARTIAL
        )
        if not parts_ok or "\\" in file.path or ":" in file.path or "\0" in file.path:
            raise DownloadFailed(
                f"The server names a file outside its folder: {file.path!r}. Nothing was written."
            )


def _refuse_full_disk(target: Path, partial: Path, missing: Iterable[DownloadFile]) -> None:
    needed = 0
    for file in missing:
        begun = partial / _partial_name(file)
        needed += file.size_bytes - min(
            file.size_bytes, begun.stat().st_size if begun.is_file() else 0
        )
    existing = next(folder for folder in (target, *target.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise DiskFull(
            f"It needs {needed / 1e6:.1f} MB more, {existing} has {free / 1e6:.1f} MB free. "
            "Nothing was written.",
            hint="Free space or choose another path. Everything is kept on the server.",
        )
