"""The relay's errors, in the body format of the client's dialect, which the path decides."""

import json

from console.server.request_limits import Send, response_send
from console.sessions.selectors import Route
from tinkerscript.wire.dialects.error_bodies import Refusal
from tinkerscript.wire.dialects.table import dialect_of
from tinkerscript.wire.sessions import SessionState


class RelayError(Exception):
    """A response in place of the gateway's. ``code`` is for programs, ``message`` says what to do
    next.
    """

    def __init__(
        self, status: int, code: str, message: str, *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after_s = (
            status,
            code,
            message,
            retry_after_s,
        )

    async def send(self, send: Send, path: str) -> None:
        """Send it as the response to a request for ``path``."""
        body = _body(self.status, self.code, self.message, path).encode()
        more = []
        if self.retry_after_s is not None:
            more.append((b"retry-after", str(self.retry_after_s).encode()))
        elif self.status == 409:
            # clients of OpenAI and Anthropic would try a conflict again
            more.append((b"x-should-retry", b"false"))
        await response_send(send, self.status, body, *more)


class BodyTooLarge(RelayError):
    """413. ``beginning`` is how the body begins, which is all that is left of it."""

    def __init__(self, limit_bytes: int, beginning: bytes) -> None:
        super().__init__(
            413, "request_too_large", f"The request's body is larger than {limit_bytes} bytes."
        )
        self.beginning = beginning


def error_for_state(route: Route) -> RelayError | None:
    """The error of a session whose state means that it serves no more calls; None when it does or
    may yet.
    """
    if route.state is SessionState.FAILED:
        cause = f"{route.failure.cause} {route.failure.hint}" if route.failure else ""
        return RelayError(409, "session_failed", f"The session has failed. {cause}".strip())
    if route.state.is_terminal or route.state is SessionState.STOPPING:
        return RelayError(410, "session_ended", f"The session is {route.state}. Start a new one.")
    return None


def stream_error(message: str, path: str) -> bytes:
    """The last event of a stream that broke; the clients of every dialect raise it."""
    data = _body(502, "upstream_lost", message, path).encode()
    return b"\n\n" + dialect_of(path).error_event + b"data: " + data + b"\n\n"


def _body(status: int, code: str, message: str, path: str) -> str:
    return json.dumps(dialect_of(path).error_body(Refusal(status, message, code)))
