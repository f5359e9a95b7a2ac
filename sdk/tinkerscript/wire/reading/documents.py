"""Where the document of each episode is, to take a whole run home: calls and tokens, as the console reads them."""

from datetime import datetime

from pydantic import Field

from ..base import Response
from ..checkpoints import DownloadFile


class EpisodeDocument(Response):
    """The gzipped JSON of one episode: a stretch of a file that holds several of them.

    It has ``report``, ``calls`` and ``timelines`` of EpisodeTimelines, and ``output`` as the episode was ended with.
    """

    episode_id: str
    file: str = Field(description="The path of one of the page's files.")
    offset_bytes: int
    size_bytes: int
    advantages: dict[str, float] | None = Field(
        None, description="By call, where they differ; else the episode's own is that of each call."
    )


class EpisodeDocuments(Response):
    """``GET .../episodes/documents``: one page in the order of beginning, with URLs of the files that it names.

    An episode is in the list once its document is in the object store: within seconds of its end.
    """

    items: list[EpisodeDocument]
    files: list[DownloadFile]
    next_cursor: str | None = None
    expires_at: datetime
