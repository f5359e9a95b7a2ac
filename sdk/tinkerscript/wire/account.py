"""Who is calling: user, projects, API keys."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from .base import Request, Response


class Scope(StrEnum):
    """What a key may do. ``admin`` includes all the others."""

    SESSIONS_READ = "sessions:read"
    SESSIONS_WRITE = "sessions:write"
    EPISODES = "episodes"
    CHECKPOINTS_READ = "checkpoints:read"
    ADMIN = "admin"


class Role(StrEnum):
    """What a member may do in a project."""

    OWNER = "owner"
    MEMBER = "member"
    VIEWER = "viewer"


class ProjectView(Response):
    """A project and the caller's role in it."""

    id: str
    name: str
    role: Role


class AccountView(Response):
    """``GET /v1/account``."""

    email: str
    projects: list[ProjectView]


class KeyCreate(Request):
    """``POST /v1/keys``."""

    name: str = Field("", max_length=120)
    scopes: list[Scope] = [Scope.SESSIONS_READ, Scope.SESSIONS_WRITE, Scope.EPISODES, Scope.CHECKPOINTS_READ]
    expires_in_days: int | None = Field(None, ge=1, le=3650)


class KeyView(Response):
    """A key without its secret, which is stored only as a hash."""

    id: str
    name: str
    prefix: str = Field(description="The first characters, to tell keys apart.")
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


class KeyCreated(KeyView):
    """The only answer that carries the secret."""

    secret: str


class KeyList(Response):
    """Newest first, revoked ones included."""

    items: list[KeyView]
