"""Options of a client and of an embedding; none of them is looked at."""

from typing import Any


class HttpOptions:
    """Takes what it is given."""

    def __init__(self, **_options: Any) -> None: ...


class EmbedContentConfig(HttpOptions):
    """Takes what it is given."""
