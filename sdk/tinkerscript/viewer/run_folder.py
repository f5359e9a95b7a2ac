"""An exported run in memory: what downloads/record.py wrote, read once. Tokens are read when they
are shown.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tinkerscript.downloads.record import (
    DOCUMENT_INDEX,
    DOCUMENT_NAME,
    DOCUMENTS,
    EPISODES,
    EVENTS,
    RUN,
    RunFile,
)
from tinkerscript.errors import InvalidRequest
from tinkerscript.wire.episodes import EpisodeView
from tinkerscript.wire.events import Event, EventKind, StepMetrics
from tinkerscript.wire.reading.documents import EpisodeDocument, document_unpack

Json = dict[str, Any]
SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
HOW_TO_EXPORT = "tinkerscript record SESSION FOLDER writes one."


class RunFolder:
    """The run of one folder. Every line was checked when it was read: what is handed out has the
    shapes of the wire.

    Raises InvalidRequest for a folder that holds no exported run, or a damaged one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.run = _run_read(folder)
        self.events = [event.model_dump(mode="json") for event in _lines(folder / EVENTS, Event)]
        self.episodes = [
            episode.model_dump(mode="json") for episode in _lines(folder / EPISODES, EpisodeView)
        ]
        self.by_id = {episode["episode_id"]: episode for episode in self.episodes}
        self.documents = {
            one.episode_id: one for one in _lines(folder / DOCUMENT_INDEX, EpisodeDocument)
        }
        for episode in self.episodes:
            episode["has_tokens"] = episode["episode_id"] in self.documents

    def document(self, episode_id: str) -> Json | None:
        """Calls and tokens of an episode; None where the export has none. Raises InvalidRequest for
        damaged ones.
        """
        place = self.documents.get(episode_id)
        if place is None:
            return None
        try:
            with (self._folder / DOCUMENTS / place.file).open("rb") as file:
                file.seek(place.offset_bytes)
                packed = file.read(place.size_bytes)
            return document_unpack(packed)
        except (OSError, ValueError) as failure:
            raise InvalidRequest(
                f"{place.file} cannot be read: {failure}.", hint="Export the run again."
            ) from failure


def _run_read(folder: Path) -> RunFile:
    try:
        run = RunFile.model_validate_json((folder / RUN).read_bytes(), extra="ignore")
    except OSError as missing:
        what = "has no run.json" if folder.is_dir() else "is no folder"
        parquet = (
            "The Parquet files of `tinkerscript episodes` are for programs. "
            if list(folder.glob("*.parquet"))
            else ""
        )
        raise InvalidRequest(f"{folder} {what}.", hint=parquet + HOW_TO_EXPORT) from missing
    except ValidationError as failure:
        wrong = failure.errors()[0]
        where = ".".join(map(str, wrong["loc"])) or "it"
        raise InvalidRequest(
            f"{folder / RUN} is no exported run that this version reads: {where}: {wrong['msg']}.",
            hint=HOW_TO_EXPORT,
        ) from failure
    if not SESSION_ID.fullmatch(run.session.id):
        raise InvalidRequest(
            f"{folder / RUN} names no session: {run.session.id!r:.80}.", hint=HOW_TO_EXPORT
        )
    return run


def _lines(path: Path, kind: type[Any]) -> Iterator[Any]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    item = kind.model_validate_json(line, extra="ignore")
                    if isinstance(item, EpisodeDocument) and not DOCUMENT_NAME.fullmatch(item.file):
                        raise ValueError("it names a file outside of the folder")
                    if isinstance(item, Event) and item.kind is EventKind.METRIC:
                        StepMetrics.model_validate(item.data)
                    yield item
                except ValueError as failure:
                    what = f"Line {number} of {path} is damaged: {str(failure).splitlines()[0]}."
                    raise InvalidRequest(what, hint="Export the run again.") from failure
    except OSError as missing:
        raise InvalidRequest(
            f"{path} cannot be read: {missing}.", hint="Export the run again."
        ) from missing
