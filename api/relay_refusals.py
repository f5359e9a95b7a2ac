"""How the relay says no: in the words of the OpenAI dialect, because its callers are OpenAI clients."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from console.sessions.selectors import Route
from tinkerscript.wire.sessions import SessionState

TYPES = {401: "authentication_error", 503: "server_error"}


class Refusal(Exception):
    """An answer instead of the gateway's. ``code`` is for programs, ``message`` says what to do next."""

    def __init__(self, status: int, code: str, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after_s = status, code, message, retry_after_s

    async def send(self, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        """Answer the client with it."""
        body = _body(self.status, self.code, self.message).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if self.retry_after_s is not None:
            headers.append((b"retry-after", str(self.retry_after_s).encode()))
        elif self.status == 409:
            headers.append((b"x-should-retry", b"false"))  # OpenAI clients would try a conflict again
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def refusal_for_state(route: Route) -> Refusal | None:
    """Why a session in this state will never answer; None when it does or may yet."""
    if route.state is SessionState.FAILED:
        cause = f"{route.failure.cause} {route.failure.hint}" if route.failure else ""
        return Refusal(409, "session_failed", f"The session has failed. {cause}".strip())
    if route.state.is_terminal or route.state is SessionState.STOPPING:
        return Refusal(410, "session_ended", f"The session is {route.state}. Start a new one.")
    return None


def stream_error(message: str) -> bytes:
    """The last event of a stream that broke; OpenAI clients raise it."""
    return b"\n\ndata: " + _body(502, "upstream_lost", message).encode() + b"\n\n"


def _body(status: int, code: str, message: str) -> str:
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})
