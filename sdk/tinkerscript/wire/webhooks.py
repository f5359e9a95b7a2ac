"""Webhooks: what is sent to whom when something happens in a project.

A delivery is a POST of a WebhookEvent with the header

    TinkerScript-Signature: t=<Unix time>,v1=<hex of HMAC-SHA256(secret, t + "." + body)>

``tinkerscript.webhooks.verify`` checks it. Any response from 200 to 299 within ten seconds counts
as delivered; others are tried again, later each time, for about two days. The same event may arrive
more than once, with the same ``id``.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from .base import Request, Response


class WebhookTopic(StrEnum):
    """What can be subscribed to."""

    SESSION_STATE = "session.state"  # data: {"session_id", "from", "to", "reason"}
    SESSION_FAILED = "session.failed"  # data: {"session_id", "code", "cause"}
    # data: {"session_id", "state", "cause"}; its runtime is replaced
    SESSION_STUCK = "session.stuck"
    # data: {"session_id", "limit", "allowed", "used"}; once, at nine tenths
    BUDGET_NEAR = "budget.near"
    TRAINING_DRIFT = (
        # data: {"session_id", "step", "kl_engine", "bound"}; the mean of five steps, when it begins
        "training.drift"
    )
    # data: {"session_id", "rule", "text", "step"}; once until it is over
    ALERT_RAISED = "alert.raised"
    # data: {"session_id", "checkpoint_id", "kind", "step"}
    CHECKPOINT_COMMITTED = "checkpoint.committed"
    CHECKPOINT_FAILED = "checkpoint.failed"  # data: {"session_id", "checkpoint_id", "reason"}


class WebhookEvent(Response):
    """The body of a delivery."""

    id: str
    topic: WebhookTopic
    at: datetime
    project_id: str
    data: dict[str, Any]


class WebhookCreate(Request):
    """``POST /v1/webhooks``."""

    url: str = Field(max_length=2000, description="https, and an address that is public.")
    topics: list[WebhookTopic] = Field(list(WebhookTopic), min_length=1, max_length=10)


class WebhookView(Response):
    """A webhook without its secret."""

    id: str
    url: str
    topics: list[WebhookTopic]
    created_at: datetime


class WebhookCreated(WebhookView):
    """The only response that carries the secret."""

    secret: str


class WebhookList(Response):
    """Newest first."""

    items: list[WebhookView]


class DeliveryState(StrEnum):
    """``failed``: given up after the last try."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class DeliveryView(Response):
    """One event on its way to one webhook. ``status`` and ``error`` are those of the last try."""

    id: str
    topic: WebhookTopic
    state: DeliveryState
    attempts: int
    status: int | None = None
    error: str = ""
    created_at: datetime
    next_at: datetime | None = None
    delivered_at: datetime | None = None


class DeliveryList(Response):
    """The latest, newest first; kept for thirty days."""

    items: list[DeliveryView]
