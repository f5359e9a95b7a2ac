"""The server: its version and the oldest client that it serves (a client's first request), its
places, what it has to run sessions on, who has it now, and who waits.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from .base import Response
from .projects import Quotas
from .sessions import SessionState


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
    launcher: str = Field(description="What starts runtimes, such as process or slurm.")
    max_runtimes: int = Field(description="So many sessions run there at once.")
    running: int = Field(
        description="Sessions of the project; for an operator those of all projects."
    )
    queued: int


class PlaceList(Response):
    """The places of this server."""

    items: list[PlaceView]


class DeviceUse(Response):
    """A device of the server's machine."""

    device: str = Field(description="As CUDA_VISIBLE_DEVICES names it.")
    used_by: Literal["nobody", "session"]
    session_id: str | None
    session_name: str | None


class RunningSession(Response):
    """A session that has a runtime."""

    session_id: str
    name: str
    state: SessionState
    since: datetime = Field(description="It is in this state.")
    devices: list[str] = Field(
        description="Of the server's machine; empty on CPUs, and where a cluster chose them."
    )


class WaitingSession(Response):
    """A queued session."""

    session_id: str
    name: str
    since: datetime
    position: int = Field(description="In the queue of all projects; 1 is next.")
    is_held: bool = Field(description="The project's quota of devices keeps it from starting.")


class ProjectUse(Response):
    """What one project has of the server."""

    project_id: str
    name: str
    runtimes: int
    devices: int = Field(description="A runtime without a GPU counts as one, as for the quota.")
    device_quota: int | None
    waiting: int


class ServerCapacity(Response):
    """The server as a whole."""

    runtimes: int = Field(description="Sessions with a runtime, of all projects.")
    waiting: int = Field(description="Queued sessions of all projects.")
    oldest_waits_since: datetime | None
    warm_runtimes: int = Field(description="Runtimes that wait for a session with their libraries.")
    devices: list[DeviceUse] = Field(
        description="Of this machine; empty without GPUs, and where a cluster has them."
    )
    projects: list[ProjectUse] = Field(
        description="Those with a runtime or a queue, the one with most devices first."
    )


class CapacityView(Response):
    """``GET /v1/capacity``: what the project has and waits for; to the server's operator, what
    every project has.
    """

    max_runtimes: int = Field(
        description="So many sessions may run at once, of all projects, at all places."
    )
    is_draining: bool = Field(
        description="The server starts no session, because its operator said so."
    )
    running: list[RunningSession] = Field(description="Of the project, the newest first.")
    waiting: list[WaitingSession] = Field(description="Of the project, the next one first.")
    quotas: Quotas
    server: ServerCapacity | None = Field(description="For operators only.")
