"""Brings the archive of a session's episodes to this disk: Parquet files, a row for each episode
that has ended.
"""

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from tinkerscript.arguments import path_of
from tinkerscript.connection.session_api import SessionApi
from tinkerscript.errors import PathInUse
from tinkerscript.wire.episodes import EpisodeAnnotation, EpisodeExport, EpisodeFile

from .folder import folder_fill, is_there

ANNOTATIONS = "annotations.jsonl"


def download(
    session: SessionApi, path: str | PathLike[str], *, deadline: float, progress: bool
) -> list[Path]:
    """Have every part in the folder ``path``. Raises as Session.download_episodes() does."""
    target = path_of("path", path).absolute()
    listing = session.episode_urls()
    _refuse_other_session(target, listing.files)
    folder_fill(
        target,
        listing.files,
        refresh=lambda: session.episode_urls().files,
        closed=lambda: session.closed,
        deadline=deadline,
        progress=progress,
        http=session.http_options,
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
    if target.exists() and not target.is_dir():
        raise PathInUse(f"{target} is a file.", hint="Give the path of a folder.")
    ours = {file.path for file in files if is_there(target / file.path, file)}
    found = {found.name for found in target.glob("part-*.parquet")} - ours
    if found:
        raise PathInUse(
            f"{target} holds episodes of another session: {', '.join(sorted(found))}. Nothing was "
            "written."
        )
