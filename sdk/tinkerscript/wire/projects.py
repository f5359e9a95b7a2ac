"""Projects, who works in them, what their sessions used (in all, by payer and day by day), and the
log of who did what.
"""

from datetime import date as Date
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from .account import ProjectView, Role
from .base import Request, Response


class ProjectCreate(Request):
    """``POST /v1/projects``. The caller who makes it owns it."""

    name: str = Field(min_length=1, max_length=120)


class ProjectUpdate(Request):
    """``PATCH /v1/projects/{id}``."""

    name: str = Field(min_length=1, max_length=120)


class ProjectList(Response):
    """Those that the caller is in, oldest first."""

    items: list[ProjectView]


class MemberInvite(Request):
    """``POST /v1/members``."""

    email: str = Field(max_length=254, pattern=r"^[^@\s]{1,64}@[^@\s]{1,189}$")
    role: Role = Role.MEMBER


class MemberUpdate(Request):
    """``PATCH /v1/members/{id}``."""

    role: Role


class MemberView(Response):
    """A member, or someone who is invited and has not accepted."""

    id: str
    email: str
    role: Role
    is_invited: bool = Field(description="They have not accepted yet, and can do nothing.")
    created_at: datetime


class MemberList(Response):
    """Oldest first."""

    items: list[MemberView]


class Usage(Response):
    """What was used, as measured. Lost heartbeats count as nothing used."""

    runtime_s: float = Field(
        description="Seconds in which a runtime held the session, from its registration on."
    )
    gpu_s: float = Field(description="The same, times the GPUs of the runtime.")
    device_s: float = Field(
        0.0, description="The same as gpu_s, with a runtime without GPU as one device."
    )
    cost: float | None = Field(
        None, description="At the prices of today; none: the server has none."
    )
    steps: int
    tokens_trained: int


class TimeUsage(Response):
    """Seconds of runtimes within a stretch of time, and the same times their GPUs."""

    runtime_s: float
    gpu_s: float
    cost: float | None = Field(
        None, description="At the prices of today; none: the server has none."
    )


class DevicePrices(Response):
    """Of a device-hour, as who runs the server set them (TINKERSCRIPT_PRICES)."""

    currency: str = Field(description="Three letters, ISO 4217.")
    gpu: float
    cpu: float = Field(description="Of a runtime without a GPU.")


class PayerUsage(Response):
    """What the sessions of one key or one member used, deleted ones too."""

    id: str | None = Field(
        description="Of the key or the member; none: no longer known, or no longer a member."
    )
    name: str
    device_s: float
    cost: float | None = None


class LimitForecast(Response):
    """A limit of a session's budget, and where it is heading at the pace that it had so far."""

    limit: str = Field(
        description="steps, wall_s, device_s, spend_cap_s (of the key that started it) or hours."
    )
    allowed: float
    used: float
    left_s: float | None = Field(
        description="Seconds with a runtime (of wall_s: by the clock) until it is reached; none: "
        "it is not being used, or, of spend_cap_s, other sessions of the key use it too."
    )
    cost_at_limit: float | None = Field(
        None,
        description="What the session will have cost then; none without prices, or where left_s is "
        "none.",
    )


class SessionSpending(Response):
    """``GET /v1/sessions/{id}/usage``: what the session used up to its runtime's last heartbeat."""

    runtime_s: float = Field(description="Seconds in which a runtime held it.")
    device_s: float = Field(
        description="The same, times its GPUs; a runtime without one counts as one."
    )
    cost: float | None = Field(
        None, description="At the prices of today; none: the server has none."
    )
    cost_per_hour: float | None = Field(
        None, description="Once its runtime has registered; none: it has none now, or no price."
    )
    prices: DevicePrices | None = Field(None, description="None: no money is shown.")
    limits: list[LimitForecast] = Field(
        [],
        description="Those that it has; spend_cap_s for people, keys with the admin scope and the "
        "very key alone.",
    )


class SessionUsage(Usage):
    """Runtime and GPU seconds, steps and trained tokens of one session."""

    session_id: str
    name: str
    base_model: str
    created_at: datetime


class Held(Response):
    """How much of something the project has now, and how much it may have at once; none: as much as
    there is.
    """

    used: int
    limit: int | None = None


class Quotas(Response):
    """What the project has now. Limits are set by who runs the server, with ``manage.py
    set_quota``.
    """

    devices: Held = Field(description="GPUs of its runtimes; a runtime without one counts as one.")
    sessions: Held = Field(description="Sessions that have not ended.")
    storage_bytes: Held = Field(
        description="Checkpoints, archived episodes, copies of journals and uploads under way."
    )


class UsageList(Response):
    """``GET /v1/usage``: one page of sessions, newest first, and the sum over all sessions of the
    project.

    The time of sessions that were deleted stays in the sum; their steps and tokens went with their
    record.
    """

    items: list[SessionUsage]
    total: Usage
    last_7_days: TimeUsage = Field(description="Of the last 168 hours, deleted sessions too.")
    by_key: list[PayerUsage] | None = Field(
        None,
        description="Of sessions that a key started; the most used first. For people, and keys "
        "with the admin scope, on the first page; none otherwise.",
    )
    by_member: list[PayerUsage] | None = Field(
        None,
        description="Of whoever started them, by hand or by key; the most used first. For the "
        "same, on the same page.",
    )
    prices: DevicePrices | None = Field(None, description="None: no money is shown.")
    quotas: Quotas
    next_cursor: str | None = None


class AuditEntry(Response):
    """Who did what to what. ``content`` is what ``sha256`` covers: SHA-256(previous_sha256 +
    newline + content).
    """

    number: int
    at: datetime
    actor: str
    key_id: str | None
    action: str
    target: dict[str, str]
    details: dict[str, Any]
    request_id: str
    content: str
    previous_sha256: str
    sha256: str


class AuditPage(Response):
    """Newest first; ``next_cursor`` is what to pass as ``before`` next time, null at the end of the
    log.

    A search reads 10,000 entries for a page at most: a page that is short or empty may be followed
    by another.
    """

    items: list[AuditEntry]
    next_cursor: int | None = None


class UsageBy(StrEnum):
    """Whose use is told apart."""

    MEMBER = "member"  # who started the session, by hand or by key
    KEY = "key"  # that started it; what was started by hand is one entry
    MODEL = "model"  # the base model


class DayUsage(Response):
    """What one payer used on one day, from midnight to midnight UTC."""

    date: Date
    id: str | None = Field(
        description="Of the member or key, or the name of the model; none: not known, or by hand."
    )
    runtime_s: float
    gpu_s: float
    device_s: float = Field(
        description="The same as gpu_s, with a runtime without GPU as one device."
    )
    cost: float | None = Field(
        None, description="At the prices of today; none: the server has none."
    )


class PeriodUsage(Response):
    """What one payer used in the whole period."""

    id: str | None
    name: str
    runtime_s: float
    gpu_s: float
    device_s: float
    cost: float | None = None
    cap_s: int | None = Field(
        None, description="Of a key: how many device-seconds it may use, ever."
    )
    ever_s: float | None = Field(None, description="Of a key with a cap: how many it used, ever.")


class UsageDays(Response):
    """``GET /v1/usage/days``: a day on which a payer used nothing has no entry."""

    first: Date
    last: Date
    by: UsageBy
    days: list[DayUsage] = Field(description="The earliest day first.")
    payers: list[PeriodUsage] = Field(description="The most used first.")
    prices: DevicePrices | None = Field(None, description="None: no money is shown.")
