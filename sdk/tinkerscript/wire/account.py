"""Who is calling: user, projects, API keys."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

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


class InvitationView(Response):
    """A project that the caller is invited to."""

    id: str
    project_name: str
    role: Role
    created_at: datetime


class AccountView(Response):
    """``GET /v1/account``. Invitations are shown to a person whose address is confirmed, and to no
    key.
    """

    email: str
    projects: list[ProjectView]
    invitations: list[InvitationView] = []


class SignInView(Response):
    """One thing that happened to how the caller comes in: a sign-in, a refused one, a changed
    password or factor.

    ``address`` and ``agent`` are those of the browser that did it, as far as the server can see.
    """

    at: datetime
    action: str
    address: str
    agent: str
    request_id: str


class SignInList(Response):
    """``GET /v1/account/sign-ins``: newest first, of this person alone; no key may see it."""

    items: list[SignInView]


BaseModelName = Annotated[str, Field(min_length=1, max_length=400)]


class KeyCreate(Request):
    """``POST /v1/keys``."""

    name: str = Field("", max_length=120)
    scopes: list[Scope] = Field(
        [Scope.SESSIONS_READ, Scope.SESSIONS_WRITE, Scope.EPISODES, Scope.CHECKPOINTS_READ],
        max_length=len(Scope),
    )
    expires_in_days: int | None = Field(None, ge=1, le=3650)
    allowed_models: list[BaseModelName] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="The base models that it may be used with; none means all.",
    )
    spend_cap_s: int | None = Field(
        None,
        ge=1,
        le=10**12,
        description="Device-seconds that the sessions it starts may use in all; then they are "
        "stopped in good order.",
    )


class KeyView(Response):
    """A key without its secret, which is stored only as a hash.

    ``spent_s`` is measured: the seconds in which a runtime was seen to serve a session of this key,
    times its GPUs (a runtime without a GPU counts as one device).
    """

    id: str
    name: str
    prefix: str = Field(description="The first characters, to distinguish keys.")
    scopes: list[Scope]
    allowed_models: list[str] | None = None
    spend_cap_s: int | None = None
    spent_s: float = 0.0
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


class KeyCreated(KeyView):
    """The only response that carries the secret."""

    secret: str


class KeyList(Response):
    """Newest first, revoked ones included."""

    items: list[KeyView]
