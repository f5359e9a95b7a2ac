"""Brings episodes to this disk: their archive, Parquet files with a row for each that has ended;
and one batch, the file of JSON lines that ``wire/reading/batches.py`` describes.
"""

import time
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from tinkerscript.arguments import path_of
from tinkerscript.connection.retries import backoff_s, is_transient
from tinkerscript.connection.session_api import SessionApi
from tinkerscript.errors import DownloadFailed, PathInUse, TinkerScriptError
from tinkerscript.wire.episodes import EpisodeAnnotation, EpisodeExport, EpisodeFile
from tinkerscript.wire.reading.batches import BatchHeader

from .folder import folder_fill, folder_of, is_there

ANNOTATIONS = "annotations.jsonl"


def download(
    session: SessionApi, path: str | PathLike[str], *, deadline: float, progress: bool
) -> list[Path]:
    """Have every part in the folder ``path``. Raises as Session.download_episodes() does."""
    target = folder_of(path)
    listing = session.episode_urls()
    _refuse_other_session(target, listing.files)
    folder_fill(
        session,
        target,
        listing.files,
        refresh=lambda: session.episode_urls().files,
        deadline=deadline,
        progress=progress,
    )
    _annotations_write(target / ANNOTATIONS, _annotations(session, listing))
    return [target / file.path for file in listing.files]


def _annotations(session: SessionApi, listing: EpisodeExport) -> Iterator[EpisodeAnnotation]:
    """Those of ``listing`` and of the pages after it."""
    yield from listing.annotations
    while listing.annotations_cursor is not None:
        listing = session.episode_urls(annotations_after=listing.annotations_cursor)
        yield from listing.annotations


def _annotations_write(path: Path, annotations: Iterable[EpisodeAnnotation]) -> None:
    """What people said of the episodes, a JSON line each; no file where nobody said anything."""
    lines = "".join(f"{one.model_dump_json()}\n" for one in annotations)
    if lines:
        path.write_text(lines, encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


def _refuse_other_session(target: Path, files: Iterable[EpisodeFile]) -> None:
    """Parts of two sessions have the same names: a reader of the folder as one table would mix
    them.
    """
    ours = {file.path for file in files if is_there(target / file.path, file)}
    found = {found.name for found in target.glob("part-*.parquet")} - ours
    if found:
        raise PathInUse(
            f"{target} holds episodes of another session: {', '.join(sorted(found))}. Nothing was "
            "written."
        )


MAX_TRIES_S = 120.0  # how long a server or a runtime may be away


def batch_download(session: SessionApi, batch: int | str, path: str | PathLike[str]) -> Path:
    """Write the batch to the file ``path``, which is there only once it is whole; returns it.

    Raises NotFound, DownloadFailed, and what ``Session.when_ready`` raises.
    """
    target = path_of("path", path)
    partial = target.with_name(target.name + ".partial")
    deadline, attempt = time.monotonic() + MAX_TRIES_S, 0
    while True:
        try:
            session.when_ready(lambda: _receive(session, batch, partial))
            partial.replace(target)
            return target
        except TinkerScriptError as failure:
            if time.monotonic() >= deadline or not (
                isinstance(failure, DownloadFailed) or is_transient(failure)
            ):
                raise
        session.pause(backoff_s(attempt))
        attempt += 1


def _receive(session: SessionApi, batch: int | str, partial: Path) -> None:
    with session.batch_stream(batch) as pieces, partial.open("wb") as out:
        for piece in pieces:
            out.write(piece)
    with partial.open("rb") as file:
        header = BatchHeader.model_validate_json(next(file, b"{}"), extra="ignore")
        lines = 1 + sum(1 for _ in file)
    if lines != 1 + header.episodes + header.samples:
        raise DownloadFailed(f"Batch {header.name} broke off after {lines} lines.")
