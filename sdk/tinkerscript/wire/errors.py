"""The one JSON error body of REST and the list of its codes."""

from enum import StrEnum
from typing import Any

from .base import Response


class ErrorCode(StrEnum):
    """What went wrong, for programs. A code keeps its meaning for ever; the message beside it may
    change.
    """

    # 400: a field is missing, malformed, out of bounds or unknown
    INVALID_REQUEST = "invalid_request"
    # 400: the model cannot be trained right; its config's field is named
    MODEL_UNSUPPORTED = "model_unsupported"
    UNKNOWN_BASE_MODEL = "unknown_base_model"  # 400: details.known lists the catalogue
    # 400: more memory than one runtime may use; details.memory is the estimate
    DOES_NOT_FIT = "does_not_fit"
    INVALID_REWARD = "invalid_reward"  # 400: not a finite number
    UNAUTHENTICATED = "unauthenticated"  # 401: no key, or a wrong or revoked one
    # 402: what the key was allowed to spend is spent; details say how much
    BUDGET_EXHAUSTED = "budget_exhausted"
    FORBIDDEN = "forbidden"  # 403: the key is good but lacks the scope
    NOT_FOUND = "not_found"  # 404: no such row, or not yours
    METHOD_NOT_ALLOWED = "method_not_allowed"  # 405
    CONFLICT = "conflict"  # 409: the row is not in a state that allows this
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"  # 409: this key was used with another body
    STALE_LEASE = "stale_lease"  # 409: another runtime holds the session now
    EPISODE_CLOSED = "episode_closed"  # 410: ended, abandoned or expired
    EMPTY_EPISODE = "empty_episode"  # 422: no LLM call was captured
    # 429: the project has as many as it may have; details.limit, details.used
    QUOTA_EXCEEDED = "quota_exceeded"
    RATE_LIMITED = "rate_limited"  # 429: details.retry_after_s, and Retry-After
    SESSION_FAILED = "session_failed"  # 409: details carry the failure's code, cause and hint
    SESSION_NOT_READY = "session_not_ready"  # 503: retry after a moment
    STORAGE_UNAVAILABLE = "storage_unavailable"  # 503: the object store does not respond
    DISK_FULL = "disk_full"  # 507: refused before anything was written
    INTERNAL = "internal"  # 500: our bug; request_id finds it in the log

    @property
    def retryable(self) -> bool:
        """Whether the same request can succeed later with no change by the caller."""
        return self in {
            ErrorCode.RATE_LIMITED,
            ErrorCode.SESSION_NOT_READY,
            ErrorCode.STORAGE_UNAVAILABLE,
            ErrorCode.INTERNAL,
        }


class ErrorDetail(Response):
    """``hint`` is what to do next, in words for people."""

    code: ErrorCode
    message: str
    hint: str = ""
    details: dict[str, Any] = {}


class ErrorBody(Response):
    """The body of every response with a status of 400 and up."""

    error: ErrorDetail
    request_id: str = ""


# To whoever sends a compressed body to a path of the dialects: Codex does, to OpenAI's servers.
COMPRESSED_HINT = (
    "Send it as it is. In Codex: enable_request_compression = false under [features] in"
    " config.toml."
)
