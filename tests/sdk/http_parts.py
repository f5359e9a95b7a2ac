"""What the fake servers of these tests are made of: requests, answers, faults, and a handler that
serves them.
"""

import contextlib
import json
import re
import socket
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")


@dataclass
class Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Drop(Exception):
    """Close the connection without an answer."""


@dataclass
class Fault:
    """What happens to the next ``times`` requests whose "METHOD path" matches ``pattern``.

    ``after``: the request is carried out first and its answer is lost.
    """

    pattern: str
    times: int
    answer: Answer | None = None  # None: the connection is dropped
    after: bool = False


def error(
    status: int, code: str, message: str = "made to fail", hint: str = "", details: Any = None
) -> Answer:
    body = {
        "error": {"code": code, "message": message, "hint": hint, "details": details or {}},
        "request_id": "req_test",
    }
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def not_ready(state: str = "loading", position: int | None = None) -> Answer:
    details = {"state": state, "queue_position": position}
    answer = error(503, "session_not_ready", "not ready", details=details)
    answer.headers["Retry-After"] = "0"
    return answer


def ranged(data: bytes, request: Request) -> Answer:
    found = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
    if not found:
        return Answer(200, data)
    start = int(found[1])
    headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
    return Answer(206, data[start:], headers)


def reply(status: int, message: Any) -> Answer:
    return Answer(status, message.model_dump_json().encode(), {"Content-Type": "application/json"})


class Served(Protocol):
    sockets: set[socket.socket]

    def answer(self, request: Request) -> Answer: ...


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet
    server_state: Served

    def setup(self) -> None:
        super().setup()
        self.server_state.sockets.add(self.connection)

    def finish(self) -> None:
        self.server_state.sockets.discard(self.connection)
        with contextlib.suppress(OSError):  # what was left to send when the connection broke
            super().finish()

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the client, or stop(), broke the connection
            self.close_connection = True

    def _serve(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        request = Request(
            method=self.command,
            path=url.path,
            query={name: values[0] for name, values in parse_qs(url.query).items()},
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )
        try:
            answer = self.server_state.answer(request)
        except Drop:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        except Exception as failure:  # noqa: BLE001 - a bug in a test; a dropped connection would only be retried
            answer = error(500, "internal", f"the fake server failed: {failure!r}")
        self.send_response(answer.status)
        announced = int(answer.headers.pop("X-Announce-Length", len(answer.body)))
        for name, value in {**answer.headers, "Content-Length": str(announced)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)
        if announced != len(answer.body):  # a body cut short
            self.close_connection = True

    do_GET = do_POST = do_PATCH = do_DELETE = _serve

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
