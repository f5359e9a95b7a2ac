"""The audit log of a project."""

from datetime import datetime
from typing import Any

from .base import Response


class AuditEntry(Response):
    """Who did what to what. ``content`` is what ``sha256`` covers: SHA-256(previous_sha256 + newline + content)."""

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
    """Newest first; ``next_cursor`` is what to pass as ``before`` next time."""

    items: list[AuditEntry]
    next_cursor: int | None = None
