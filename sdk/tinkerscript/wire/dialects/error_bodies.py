"""What the clients of each dialect expect of a response with a status of 400 and up."""

from dataclasses import dataclass, field
from typing import Any

OPENAI_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


@dataclass(frozen=True)
class Refusal:
    """Why a request is refused; a dialect's body has what of it the dialect has a field for.

    ``code`` is for programs and ``param`` names the option at fault. ``kind`` is OpenAI's type, by
    default the usual one of ``status``.
    """

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    kind: str | None = None
    request_id: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


def openai_error_body(refusal: Refusal) -> dict[str, Any]:
    """Source: errors of api.openai.com."""
    status = refusal.status
    usual = "server_error" if status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": refusal.message,
            "type": refusal.kind or OPENAI_TYPES.get(status, usual),
            "param": refusal.param,
            "code": refusal.code,
        }
    }


def anthropic_error_body(refusal: Refusal) -> dict[str, Any]:
    """Source: Anthropic's API reference, "Errors"."""
    status = refusal.status
    usual = "api_error" if status >= 500 else "invalid_request_error"
    error: dict[str, Any] = {"type": ANTHROPIC_TYPES.get(status, usual), "message": refusal.message}
    if refusal.details:
        error |= {"details": refusal.details}
    return {"type": "error", "error": error, "request_id": refusal.request_id}
