"""Brings one batch to this disk: the file of JSON lines that ``wire/batches.py`` describes."""

import time
from os import PathLike
from pathlib import Path

from tinkerscript.arguments import path_of
from tinkerscript.connection.retries import backoff_s, is_transient
from tinkerscript.connection.session_api import SessionApi
from tinkerscript.errors import DownloadFailed, TinkerScriptError
from tinkerscript.wire.batches import BatchHeader

MAX_TRIES_S = 120.0  # how long a server or a runtime may be away


def download(session: SessionApi, batch: int | str, path: str | PathLike[str]) -> Path:
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
