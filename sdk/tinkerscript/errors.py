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
  SessionFailed             the session failed; `failure` is the reason
  SessionEnded              the session was stopped or cancelled
  SessionNotReady           503: queued, loading or restarting; the SDK waits by itself
  StorageUnavailable        503: the object store does not respond
  DiskFull                  no room, here or on the server; refused before anything was written
  InternalError             500: a bug in the server; `request_id` finds it in its log
  ServerUnreachable         no response, for as long as retries were allowed
  IncompatibleServer        client and server are too far apart in version
  UnexpectedAnswer          a response that is not of the agreed shape
  WaitTimeout               a wait reached its bound (also a TimeoutError)
  NoOpenEpisode             this thread or task has no open episode
  BeginWouldBlock           a begin that would have to wait, inside a running event loop
  ClientClosed              used after close()
  CheckpointFailed          the runtime could not make the checkpoint
  JudgeFailed               the attempts at a task could not be judged, and were abandoned
  DownloadFailed            a file did not arrive
    DownloadCorrupt           a file arrived, twice, with another hash than in its manifest
    PathInUse                 the target folder holds the weights of another model
"""

from collections.abc import Mapping
from typing import Any

from .wire.sessions import Failure


class TinkerScriptError(Exception):
    """Base of all.

    ``code`` is a value of wire ErrorCode when the server said one; ``status`` the HTTP status;
    ``request_id`` finds the request in the server's log; ``hint`` is what to do next;
    ``retry_after_s`` is what the server asked for, in seconds.
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

    def __repr__(self) -> str:
        # with the hint: loops print what an agent raised by its repr
        return f"{type(self).__name__}({str(self)!r})"

    def __str__(self) -> str:
        parts = [self.message]
        if self.hint:
            if self.message[-1:].isalnum():  # a server's text may have no full stop
                parts = [f"{self.message}."]
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
        "Give the episode's base_url and api_key to the agent's OpenAI client, so that its calls "
        "are captured. If you"
        " did, a proxy or a sign-in page answered in the server's place: see what the client got."
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
            log=[str(line) for line in said.get("log") or []],
        )

    @property
    def cause(self) -> str:
        """What happened, in words."""
        return self.failure.cause


class SessionEnded(TinkerScriptError):
    default_hint = (
        'Start a new session: TinkerScript("ckp_...") goes on from one of its checkpoints.'
    )


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


class IncompatibleServer(TinkerScriptError):
    pass


class UnexpectedAnswer(TinkerScriptError):
    default_hint = (
        "Check that the base URL is a TinkerScript server and that client and server "
        "have matching versions."
    )


class WaitTimeout(TinkerScriptError, TimeoutError):
    pass


class NoOpenEpisode(TinkerScriptError):
    default_hint = (
        "Call begin_episode() first, in the same thread or asyncio "
        "task; from another one pass episode=... explicitly."
    )


class BeginWouldBlock(TinkerScriptError):
    default_hint = (
        "In asyncio code use AsyncTinkerScript: `async with AsyncTinkerScript(...) as session`, "
        "then `await session.begin_episode()`. Or run whole rollouts in threads: `await "
        "asyncio.to_thread(rollout, task)`."
    )


class ClientClosed(TinkerScriptError):
    default_hint = (
        "close() was called. Attach again with TinkerScript(session_id=...) or start a new session."
    )


class CheckpointFailed(TinkerScriptError):
    default_hint = "Ask for the checkpoint again; the session's events say more."


class JudgeFailed(TinkerScriptError):
    """No endpoint, no use of its answer, or fewer attempts than a group has. Nothing was
    rewarded.
    """


class DownloadFailed(TinkerScriptError):
    default_hint = "Download again: what has arrived is kept and the rest resumes."


class DownloadCorrupt(DownloadFailed):
    default_hint = (
        "Download again. If it happens again, the stored checkpoint is damaged: make a new one."
    )


class PathInUse(DownloadFailed):
    default_hint = (
        "Choose another path, or remove those files. The checkpoint is kept on the server."
    )
