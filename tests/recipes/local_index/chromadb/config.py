"""Settings of a Chroma client; none of them is looked at."""

from typing import Any


class Settings:
    """Takes what it is given."""

    def __init__(self, **_options: Any) -> None: ...
