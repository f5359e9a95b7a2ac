"""From an HTTP response to the typed error that it stands for."""

import json
from collections.abc import Mapping
from typing import Any

from tinkerscript.errors import (
    AuthenticationError,
    Conflict,
    DiskFull,
    EmptyEpisode,
    EpisodeClosed,
    IdempotencyMismatch,
    InternalError,
    InvalidRequest,
    InvalidReward,
    NotFound,
    PermissionDenied,
    RateLimited,
    ServerUnreachable,
    SessionFailed,
    SessionNotReady,
    StaleLease,
    StorageUnavailable,
    TinkerScriptError,
    UnexpectedAnswer,
    UnknownBaseModel,
)
from tinkerscript.wire.errors import ErrorCode

from .foreign_answers import excerpt, hint_for
from .retries import retry_after_s

_BY_CODE: dict[str, type[TinkerScriptError]] = {
    ErrorCode.INVALID_REQUEST: InvalidRequest,
    ErrorCode.UNKNOWN_BASE_MODEL: UnknownBaseModel,
    ErrorCode.MODEL_UNSUPPORTED: InvalidRequest,
    ErrorCode.INVALID_REWARD: InvalidReward,
    ErrorCode.UNAUTHENTICATED: AuthenticationError,
    ErrorCode.FORBIDDEN: PermissionDenied,
    ErrorCode.NOT_FOUND: NotFound,
    ErrorCode.METHOD_NOT_ALLOWED: UnexpectedAnswer,
    ErrorCode.CONFLICT: Conflict,
    ErrorCode.IDEMPOTENCY_MISMATCH: IdempotencyMismatch,
    ErrorCode.STALE_LEASE: StaleLease,
    ErrorCode.EPISODE_CLOSED: EpisodeClosed,
    ErrorCode.EMPTY_EPISODE: EmptyEpisode,
    ErrorCode.RATE_LIMITED: RateLimited,
    ErrorCode.SESSION_FAILED: SessionFailed,
    ErrorCode.SESSION_NOT_READY: SessionNotReady,
    ErrorCode.STORAGE_UNAVAILABLE: StorageUnavailable,
    ErrorCode.DISK_FULL: DiskFull,
    ErrorCode.INTERNAL: InternalError,
}

# For responses that carry no code we know: a proxy's page, or a newer server's code.
_BY_STATUS: dict[int, type[TinkerScriptError]] = {
    401: AuthenticationError,
    403: PermissionDenied,
    404: NotFound,
    407: ServerUnreachable,  # of a proxy; not tried again
    408: ServerUnreachable,  # the request did not arrive in time, as after a laptop slept
    409: Conflict,
    410: EpisodeClosed,
    429: RateLimited,
    502: ServerUnreachable,
    503: ServerUnreachable,
    504: ServerUnreachable,
    507: DiskFull,
}


def error_from_response(
    status: int, body: bytes, headers: Mapping[str, str], *, what: str, url: str
) -> TinkerScriptError:
    """The typed error for a response with a status of 300 and up of ``url``; ``what`` names the
    request. Never raises itself.
    """
    said, request_id = _read_body(body)
    code = said.get("code")
    kind = _BY_CODE.get(code) if isinstance(code, str) else None
    if kind is None:
        other = (
            InternalError
            if status >= 500
            else InvalidRequest
            if status >= 400
            else UnexpectedAnswer
        )
        kind = _BY_STATUS.get(status, other)
    message = said.get("message")
    if not isinstance(message, str) or not message:
        message = f"{what} returned {status}: {excerpt(body)}."
    details = said.get("details")
    return kind(
        message,
        hint=str(said.get("hint") or ("" if said else hint_for(status, body, headers, url))),
        code=code if isinstance(code, str) else None,
        request_id=request_id or headers.get("x-request-id", ""),
        status=status,
        details=details if isinstance(details, dict) else None,
        retry_after_s=retry_after_s(headers),
    )


def _read_body(body: bytes) -> tuple[dict[str, Any], str]:
    """The ``error`` object and the request id of an error body; empty ones when it is not such a
    body.
    """
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}, ""
    if not isinstance(parsed, dict) or not isinstance(parsed.get("error"), dict):
        return {}, ""
    return parsed["error"], str(parsed.get("request_id") or "")
