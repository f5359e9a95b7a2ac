"""The relay's errors, in the body format of the client's dialect (OpenAI or Anthropic), which the
path decides.
"""

import json

from console.server.request_limits import Send, response_send
from console.sessions.selectors import Route
from tinkerscript.wire.errors import ANTHROPIC_PATH, anthropic_error_body
from tinkerscript.wire.sessions import SessionState

PREFIX = "/openai"  # of every path that the relay serves; what follows is the gateway's path
TYPES = {401: "authentication_error", 429: "rate_limit_error", 503: "server_error"}


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
            # both dialects' clients would try a conflict again
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
    """The last event of a stream that broke; clients of both dialects raise it."""
    event = b"event: error\n" if _is_anthropic(path) else b""
    return (
        b"\n\n" + event + b"data: " + _body(502, "upstream_lost", message, path).encode() + b"\n\n"
    )


def _body(status: int, code: str, message: str, path: str) -> str:
    if _is_anthropic(path):
        return json.dumps(anthropic_error_body(status, message))
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _is_anthropic(path: str) -> bool:
    return path.removeprefix(PREFIX).startswith(ANTHROPIC_PATH)
