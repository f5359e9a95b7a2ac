"""Public links to a run, and what they show of it."""

from datetime import datetime

from pydantic import Field

from ..base import Request, Response
from ..config import SessionConfig
from ..sessions import Accounting, SessionState


class ShareCreate(Request):
    """``POST /v1/sessions/{id}/shares``."""

    expires_in_days: int = Field(7, ge=1, le=365)


class ShareView(Response):
    """A link that reads a session until it expires, is revoked, or its maker may not change the
    session any more.
    """

    id: str
    by: str = Field(description="The e-mail address of the person who made it.")
    created_at: datetime
    expires_at: datetime


class ShareCreated(ShareView):
    """``url`` is shown this once. Its part after # is the token: browsers send that to no server by
    themselves.
    """

    url: str


class ShareList(Response):
    """Those that read the session now, newest first."""

    items: list[ShareView]


class SharedRun(Response):
    """What a link shows of its session: no notes, no people, no causes of failures, which may name
    the machine.
    """

    name: str
    base_model: str
    state: SessionState
    config: SessionConfig
    policy_version: int
    reward_mean: float | None
    accounting: Accounting
    created_at: datetime
    expires_at: datetime = Field(description="When the link ends.")
