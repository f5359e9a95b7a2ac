"""Where the document of each episode is, to take a whole run home: calls and tokens, as the console
reads them.
"""

import json
import zlib
from datetime import datetime
from typing import Any

from pydantic import Field

from ..base import Response
from ..checkpoints import DownloadFile

MAX_DOCUMENT_BYTES = 1 << 30  # unpacked: what is larger is not read into a process


def document_unpack(packed: bytes) -> dict[str, Any]:
    """The document of one episode from its gzipped JSON. Raises ValueError with what is wrong."""
    unpack = zlib.decompressobj(wbits=31)  # gzip
    try:
        text = unpack.decompress(packed, MAX_DOCUMENT_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpack.eof:
        raise ValueError("it is cut off, or too large")
    document: dict[str, Any] = json.loads(text)
    return document


class EpisodeDocument(Response):
    """The gzipped JSON of one episode: a stretch of a file that holds several of them.

    It has ``report``, ``calls`` and ``timelines`` of EpisodeTimelines, and ``output`` as the
    episode was ended with.
    """

    episode_id: str
    file: str = Field(description="The path of one of the page's files.")
    offset_bytes: int
    size_bytes: int
    advantages: dict[str, float] | None = Field(
        None, description="By call, where they differ; else the episode's own is that of each call."
    )


class EpisodeDocuments(Response):
    """``GET .../episodes/documents``: one page in the order of beginning, with URLs of the files
    that it names.

    An episode is in the list once its document is in the object store: within seconds of its end.
    """

    items: list[EpisodeDocument]
    files: list[DownloadFile]
    next_cursor: str | None = None
    expires_at: datetime
