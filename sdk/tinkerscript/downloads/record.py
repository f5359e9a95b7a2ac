"""Brings what the console shows of a run to this disk, for ``tinkerscript view``.

    run.json          the session and what belongs to it as a whole (RunFile)
    events.jsonl      its record, an entry a line
    episodes.jsonl    its episodes as lists show them, oldest first, an episode a line
    documents.jsonl   where the calls and tokens of each episode are, an episode a line
    documents/        the files that documents.jsonl names, each named by its SHA-256

``run.json`` is written last, and an earlier one removed first: without it the folder is no run.
"""

import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from tinkerscript.connection.session_api import SessionApi, pages
from tinkerscript.errors import DownloadFailed, PathInUse, WaitTimeout
from tinkerscript.wire.base import Response
from tinkerscript.wire.checkpoints import CheckpointList, DownloadFile
from tinkerscript.wire.episodes import EpisodeList, EpisodeView
from tinkerscript.wire.events import Event, EventPage
from tinkerscript.wire.projects import SessionSpending
from tinkerscript.wire.reading.documents import EpisodeDocument, EpisodeDocuments
from tinkerscript.wire.reading.resources import ResourceColumns
from tinkerscript.wire.sessions import SessionLogs, SessionView
from tinkerscript.wire.tasks import TaskCounts

from .folder import folder_fill, folder_of

RUN, EVENTS, EPISODES, DOCUMENT_INDEX, DOCUMENTS = (
    "run.json", "events.jsonl", "episodes.jsonl", "documents.jsonl", "documents",
)  # fmt: skip
DOCUMENT_NAME = re.compile("[0-9a-f]{64}")
EPISODES_A_PAGE, EVENTS_A_PAGE, DOCUMENTS_A_PAGE, LOG_LINES = 200, 1000, 1000, 5000


class RunFile(Response):
    """``run.json``."""

    format: Literal[1] = 1
    exported_at: datetime
    session: SessionView
    usage: SessionSpending
    checkpoints: CheckpointList
    tasks: TaskCounts
    resources: ResourceColumns
    logs: SessionLogs


def download(
    session: SessionApi, path: str | PathLike[str], *, deadline: float, progress: bool
) -> Path:
    """Have the run in the folder ``path``. Raises as Session.download_record() does."""
    target = folder_of(path)
    _refuse_other_run(target, session.id)
    session.status()  # a server that is away leaves an earlier export as it was
    target.mkdir(parents=True, exist_ok=True)
    (target / RUN).unlink(missing_ok=True)
    exported_at = datetime.now(UTC)
    # In this order: whatever is referred to is there, also of a run that goes on meanwhile.
    _lines_write(target / EPISODES, _episodes(session, deadline))
    _documents_fetch(session, target, deadline, progress=progress)
    _lines_write(target / EVENTS, _events(session, deadline))
    run = RunFile(
        exported_at=exported_at,
        session=session.status(),
        usage=session.read("/usage", SessionSpending),
        checkpoints=session.read("/checkpoints", CheckpointList),
        tasks=session.read("/tasks", TaskCounts),
        resources=session.read("/resources", ResourceColumns),
        logs=session.read("/logs", SessionLogs, lines=LOG_LINES),
    )
    _whole_write(target / RUN, [run.model_dump_json(indent=1)])
    return target


def _episodes(session: SessionApi, deadline: float) -> Iterator[EpisodeView]:
    def read(cursor: str | None) -> EpisodeList:
        _check_time(deadline)
        return session.read(
            "/episodes", EpisodeList, sort="oldest", limit=EPISODES_A_PAGE, cursor=cursor
        )

    for page in pages(read):
        yield from page.items


def _events(session: SessionApi, deadline: float) -> Iterator[Event]:
    after = 0
    while True:
        _check_time(deadline)
        page = session.read("/events", EventPage, after=after, limit=EVENTS_A_PAGE)
        yield from page.items
        if not page.items:
            return
        after = page.next_cursor


def _document_pages(session: SessionApi, deadline: float) -> Iterator[EpisodeDocuments]:
    def read(cursor: str | None) -> EpisodeDocuments:
        _check_time(deadline)
        return session.read(
            "/episodes/documents", EpisodeDocuments, limit=DOCUMENTS_A_PAGE, cursor=cursor
        )

    return pages(read)


def _documents_write(session: SessionApi, path: Path, deadline: float) -> list[DownloadFile]:
    """Write where the documents are; returns the files that they are in."""
    files: dict[str, DownloadFile] = {}

    def items() -> Iterator[EpisodeDocument]:
        for page in _document_pages(session, deadline):
            files.update({file.path: file for file in page.files})
            yield from page.items

    _lines_write(path, items())
    return list(files.values())


def _documents_fetch(session: SessionApi, target: Path, deadline: float, *, progress: bool) -> None:
    """Have the documents, and where they are. Those of a run that goes on are packed anew as it
    trains them.
    """
    while True:
        files = _documents_write(session, target / DOCUMENT_INDEX, deadline)
        paths = {file.path for file in files}
        try:
            folder_fill(
                session,
                target / DOCUMENTS,
                files,
                refresh=lambda: _document_files(session, deadline),
                deadline=deadline,
                progress=progress,
            )
        except DownloadFailed:
            if paths <= {file.path for file in _document_files(session, deadline)}:
                raise
        else:
            _others_remove(target / DOCUMENTS, paths)
            return


def _document_files(session: SessionApi, deadline: float) -> list[DownloadFile]:
    return list(
        {
            file.path: file for page in _document_pages(session, deadline) for file in page.files
        }.values()
    )


def _others_remove(folder: Path, named: set[str]) -> None:
    """Files of an earlier export that hold episodes which were erased since."""
    for path in folder.iterdir():
        if path.name not in named and DOCUMENT_NAME.fullmatch(path.name):
            path.unlink()


def _lines_write(path: Path, items: Iterable[BaseModel]) -> None:
    _whole_write(path, (f"{item.model_dump_json()}\n" for item in items))


def _whole_write(path: Path, pieces: Iterable[str]) -> None:
    """A file that is there has all of its lines."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as out:
        out.writelines(pieces)
    partial.replace(path)


def _refuse_other_run(target: Path, session_id: str) -> None:
    if not (target / RUN).exists():
        return
    try:
        held = RunFile.model_validate_json((target / RUN).read_bytes(), extra="ignore").session.id
    except ValidationError:
        held = "something else"
    if held != session_id:
        raise PathInUse(
            f"{target} holds the run {held}. Nothing was written.",
            hint="Give the path of another folder.",
        )


def _check_time(deadline: float) -> None:
    if time.monotonic() >= deadline:
        raise WaitTimeout(
            "The export of the run reached its time limit.", hint="Give it more time: timeout_s."
        )
