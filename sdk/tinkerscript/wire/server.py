"""The server's version and the oldest client that it serves: a client's first request."""

from pydantic import Field

from .base import Response


class ServerView(Response):
    """``GET /v1/server``. docs/compatibility.md has the rule."""

    version: str = Field(description="major.minor.patch.")
    minimum_client: str = Field(description="The oldest client that this server serves.")
    capabilities: list[str] = Field(
        description="What not every version has, by name; a client asks here before it uses one."
    )


class PlaceView(Response):
    """One of them. A session names it, or its kind, in ``config.place``."""

    name: str = Field(description="`here` is the one that every server has.")
    kind: str = Field(
        description="What the operator calls its machines, such as h100x8; empty for `here`."
    )
    launcher: str = Field(description="process, docker, kubernetes, slurm or ray.")
    max_runtimes: int = Field(description="So many sessions run there at once.")
    running: int = Field(
        description="Sessions of the project; for an operator those of all projects."
    )
    queued: int


class PlaceList(Response):
    """The places of this server."""

    items: list[PlaceView]
