"""What can go wrong for a client of TinkerScript, each with what to do next.

TinkerScriptError
  InvalidRequest            400: a field is missing, malformed or out of bounds
    UnknownOption             an option of the session that does not exist (found before any network traffic)
    UnknownBaseModel          not in the server's catalogue
    InvalidReward             not a finite number (found before any network traffic)
  AuthenticationError       401: no API key, or a wrong or revoked one
  PermissionDenied          403: the key is good but lacks the scope
  NotFound                  404: no such thing, or not yours
  Conflict                  409: the thing is not in a state that allows this
    IdempotencyMismatch       the same key with another body
    StaleLease                another runtime holds the session now (runtimes only)
  EpisodeClosed             410: ended, abandoned or expired
  EmptyEpisode              422: no LLM call was captured
  RateLimited               429
  SessionFailed             the session failed; `failure` says why
  SessionEnded              the session was stopped or cancelled
  SessionNotReady           503: queued, loading or restarting; the SDK waits by itself
  StorageUnavailable        503: the object store does not answer
  DiskFull                  no room, here or on the server; refused before anything was written
  InternalError             500: a bug in the server; `request_id` finds it in its log
  ServerUnreachable         no answer, for as long as retries were allowed
  UnexpectedAnswer          an answer that is not of the agreed shape
  WaitTimeout               a wait reached its bound (also a TimeoutError)
  NoOpenEpisode             this thread or task has no open episode
  ClientClosed              used after close()
  CheckpointFailed          the runtime could not make the checkpoint
  DownloadFailed            a file did not arrive
    DownloadCorrupt           a file arrived, twice, with another hash than its manifest says
    PathInUse                 the target folder holds the weights of another model
"""

import json
from collections.abc import Mapping
from typing import Any

from .wire.errors import ErrorCode
from .wire.sessions import Failure


class TinkerScriptError(Exception):
    """Base of all.

    ``code`` is a value of wire ErrorCode when the server said one; ``status`` the HTTP status; ``request_id`` finds the
    request in the server's log; ``hint`` says what to do next; ``retry_after_s`` is what the server asked for, in
    seconds.
    """

    default_hint = ""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str | None = None,
        request_id: str = "",
        status: int | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        self.code = code
        self.request_id = request_id
        self.status = status
        self.details = dict(details or {})
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        parts = [self.message]
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        if self.request_id:
            parts.append(f"(request {self.request_id})")
        return " ".join(parts)


class InvalidRequest(TinkerScriptError):
    pass


class UnknownOption(InvalidRequest):
    pass


class UnknownBaseModel(InvalidRequest):
    pass


class InvalidReward(InvalidRequest):
    default_hint = "Return a finite number, or abandon the episode with abort_episode()."


class AuthenticationError(TinkerScriptError):
    pass


class PermissionDenied(TinkerScriptError):
    default_hint = "Make an API key with the scope that is missing."


class NotFound(TinkerScriptError):
    pass


class Conflict(TinkerScriptError):
    pass


class IdempotencyMismatch(Conflict):
    pass


class StaleLease(Conflict):
    pass


class EpisodeClosed(TinkerScriptError):
    default_hint = "Begin a new episode; a closed one takes no more calls and no other result."


class EmptyEpisode(TinkerScriptError):
    default_hint = (
        "Give the episode's base_url and api_key to the agent's OpenAI client, so that its calls are captured."
    )


class RateLimited(TinkerScriptError):
    pass


class SessionFailed(TinkerScriptError):
    """``failure`` has the stable ``code``, the ``cause`` and the ``hint``."""

    @property
    def failure(self) -> Failure:
        """Why the session failed."""
        said = self.details.get("failure", self.details)
        return Failure(
            code=str(said.get("code", "unknown")),
            cause=str(said.get("cause", self.message)),
            hint=str(said.get("hint", self.hint)),
        )

    @property
    def cause(self) -> str:
        """What happened, in words."""
        return self.failure.cause


class SessionEnded(TinkerScriptError):
    default_hint = "Start a new session."


class SessionNotReady(TinkerScriptError):
    pass


class StorageUnavailable(TinkerScriptError):
    pass


class DiskFull(TinkerScriptError):
    pass


class InternalError(TinkerScriptError):
    default_hint = "This is a bug in the server. Look for the request id in its log."


class ServerUnreachable(TinkerScriptError):
    pass


class UnexpectedAnswer(TinkerScriptError):
    default_hint = "Check that the base URL is a TinkerScript server and that client and server have matching versions."


class WaitTimeout(TinkerScriptError, TimeoutError):
    pass


class NoOpenEpisode(TinkerScriptError):
    default_hint = (
        "Call begin_episode() first, in the same thread or asyncio task; from another one pass episode=... explicitly."
    )


class ClientClosed(TinkerScriptError):
    default_hint = "close() was called. Attach again with TinkerScript(session_id=...) or start a new session."


class CheckpointFailed(TinkerScriptError):
    default_hint = "Ask for the checkpoint again; the session's events say more."


class DownloadFailed(TinkerScriptError):
    default_hint = "Download again: what has arrived is kept and the rest resumes."


class DownloadCorrupt(DownloadFailed):
    default_hint = "Download again. If it happens again, the stored checkpoint is damaged: make a new one."


class PathInUse(DownloadFailed):
    default_hint = "Choose another path, or remove those files. The checkpoint is kept on the server."


_BY_CODE: dict[str, type[TinkerScriptError]] = {
    ErrorCode.INVALID_REQUEST: InvalidRequest,
    ErrorCode.UNKNOWN_BASE_MODEL: UnknownBaseModel,
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

# For answers that carry no code we know: a proxy's page, or a newer server's code.
_BY_STATUS: dict[int, type[TinkerScriptError]] = {
    401: AuthenticationError,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    410: EpisodeClosed,
    429: RateLimited,
    502: ServerUnreachable,
    503: ServerUnreachable,
    504: ServerUnreachable,
    507: DiskFull,
}


def from_answer(status: int, body: bytes, headers: Mapping[str, str], *, what: str) -> TinkerScriptError:
    """The typed error for an answer with a status of 300 and up; ``what`` names the request. Never raises itself."""
    said, request_id = _read_body(body)
    code = said.get("code")
    kind = _BY_CODE.get(code) if isinstance(code, str) else None
    if kind is None:
        other = InternalError if status >= 500 else InvalidRequest if status >= 400 else UnexpectedAnswer
        kind = _BY_STATUS.get(status, other)
    message = said.get("message")
    if not isinstance(message, str) or not message:
        message = f"{what} was answered {status}: {_excerpt(body)}"
    details = said.get("details")
    return kind(
        message,
        hint=str(said.get("hint") or _redirect_hint(status, headers)),
        code=code if isinstance(code, str) else None,
        request_id=request_id or headers.get("x-request-id", ""),
        status=status,
        details=details if isinstance(details, dict) else None,
        retry_after_s=_seconds(headers.get("retry-after")),
    )


def _read_body(body: bytes) -> tuple[dict[str, Any], str]:
    """The ``error`` object and the request id of an error body; empty ones when it is not such a body."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}, ""
    if not isinstance(parsed, dict) or not isinstance(parsed.get("error"), dict):
        return {}, ""
    return parsed["error"], str(parsed.get("request_id") or "")


def _excerpt(body: bytes) -> str:
    text = " ".join(body[:400].decode("utf-8", "replace").split())
    return text[:200] or "an empty body"


def _redirect_hint(status: int, headers: Mapping[str, str]) -> str:
    target = headers.get("location", "")
    return f"The server lives elsewhere: use the origin of {target} as the base URL." if status < 400 and target else ""


def _seconds(value: str | None) -> float | None:
    """Retry-After in seconds. Its other form, a date, is treated as absent: our own back-off then applies."""
    try:
        seconds = float(value) if value is not None else None
    except ValueError:
        return None
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None
