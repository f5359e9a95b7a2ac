"""The error body of Anthropic's dialect: what an Anthropic client gets from the relay and from the gateway."""

from typing import Any

PATH = "/v1/messages"  # of the dialect, at the gateway; the relay has a prefix before it
TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def error_body(status: int, message: str, request_id: str | None = None) -> dict[str, Any]:
    """The body of an answer with ``status``, by which its type goes. Source: Anthropic's API reference, "Errors"."""
    kind = TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
