"""Responses to Tinker clients."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A response. ``retry_after_s`` asks the client to wait."""

    status: int
    body: bytes
    content_type: str = "application/json"
    retry_after_s: int | None = None

    @classmethod
    def of(cls, value: object, status: int = 200, retry_after_s: int | None = None) -> "Answer":
        """A JSON response."""
        return cls(status, json.dumps(value).encode(), retry_after_s=retry_after_s)
