"""Brings one batch to this disk: the file of JSON lines that ``wire/batches.py`` describes."""

import time
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import DownloadFailed, ServerUnreachable
from .transport import Transport, backoff_s
from .wire.batches import BatchHeader

if TYPE_CHECKING:
    from .session import Session

TRIES_S = 120.0  # how long a server or a runtime may be away


def download(session: "Session", transport: Transport, batch: int | str, path: str | PathLike[str]) -> Path:
    """Write the batch to the file ``path``, which is there only once it is whole; answers it.

    Raises NotFound, DownloadFailed, and what ``Session.when_ready`` raises.
    """
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    deadline, attempt = time.monotonic() + TRIES_S, 0
    while True:
        try:
            session.when_ready(lambda: _receive(transport, f"/v1/sessions/{session.id}/batches/{batch}", partial))
            partial.replace(target)
            return target
        except (ServerUnreachable, DownloadFailed):
            if time.monotonic() >= deadline:
                raise
        session.pause(backoff_s(attempt))
        attempt += 1


def _receive(transport: Transport, url_path: str, partial: Path) -> None:
    with transport.stream(url_path) as pieces, partial.open("wb") as out:
        for piece in pieces:
            out.write(piece)
    with partial.open("rb") as file:
        header = BatchHeader.model_validate_json(next(file, b"{}"))
        lines = 1 + sum(1 for _ in file)
    if lines != 1 + header.episodes + header.samples:
        raise DownloadFailed(f"Batch {header.name} broke off after {lines} lines.")
