"""A small HTTP server on this machine alone, which shows one exported run and changes nothing. Its
pages are the console's as they were built: in the wheel beside this file, in a checkout in
frontend/dist.

It answers only to its own address (no other name may lead a browser here) and only who has opened
the printed address, whose key becomes a cookie: other users of the machine and other pages of the
browser read nothing.
"""

import hmac
import json
import mimetypes
import secrets
from datetime import datetime
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tinkerscript.errors import Conflict, InvalidRequest, NotFound, TinkerScriptError
from tinkerscript.wire.errors import ErrorBody, ErrorCode, ErrorDetail

from .answers import Answers
from .run_folder import RunFolder

HERE = Path(__file__).resolve().parent
PLACES = (HERE / "pages", HERE.parents[2] / "frontend" / "dist")
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}
# How a page knows that no server stands behind it: frontend/src/api/offline.ts.
MARK = '<meta name="tinkerscript-exported-at" content="{}">'

File = tuple[str, bytes]  # media type, content


def pages_read(exported_at: datetime) -> dict[str, File]:
    """Every file by its path in the address; ``/`` is the page. Raises InvalidRequest where there
    are none.
    """
    folder = next((place for place in PLACES if (place / "index.html").is_file()), None)
    if folder is None:
        raise InvalidRequest(
            "This client came without the console's pages, which the viewer shows.",
            hint="In a checkout: make frontend. Else install the client from a server that shows "
            "the console: pip install ADDRESS/client/tinkerscript.whl",
        )
    files = {
        f"/{path.relative_to(folder).as_posix()}": (_type_of(path), path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".br", ".gz")
    }
    kind, page = files.pop("/index.html")
    mark = MARK.format(exported_at.isoformat()).encode()
    return files | {"/": (kind, page.replace(b"</head>", mark + b"</head>", 1))}


def _type_of(path: Path) -> str:
    kind = (
        TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    )
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


IDLE_S = 30.0  # a connection that sends nothing is closed
# A page loads nothing from elsewhere, runs nothing inline and stands in no frame; dialogs put a
# style into the page.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; form-action "
    "'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
REFUSALS: dict[type[TinkerScriptError], tuple[HTTPStatus, ErrorCode]] = {
    NotFound: (HTTPStatus.NOT_FOUND, ErrorCode.NOT_FOUND),
    Conflict: (HTTPStatus.CONFLICT, ErrorCode.CONFLICT),
    InvalidRequest: (HTTPStatus.BAD_REQUEST, ErrorCode.INVALID_REQUEST),
}


class Viewer(ThreadingHTTPServer):
    """Listens on a free port of 127.0.0.1 from its making on; ``serve_forever`` serves,
    ``server_close`` ends it.

    Example: ``with Viewer(RunFolder(Path("run"))) as viewer: print(viewer.address);
    viewer.serve_forever()``
    """

    daemon_threads = True

    def __init__(self, folder: RunFolder) -> None:
        self.files: dict[str, File] = pages_read(folder.run.exported_at)
        self.answers = Answers(folder)
        self.first_page = f"/sessions/{folder.run.session.id}"
        self.key = secrets.token_urlsafe(32)
        super().__init__(("127.0.0.1", 0), _Handler)
        self.host = f"127.0.0.1:{self.server_port}"
        # cookies know no ports: each viewer has its own
        self.cookie = f"tinkerscript_view_{self.server_port}"

    @property
    def address(self) -> str:
        """What to open in a browser. Who has it can read the run while the viewer runs."""
        return f"http://{self.host}/?key={self.key}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Viewer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tinkerscript", ""
    timeout = IDLE_S
    # head and body leave together, without a wait of 40 ms for the first to be acknowledged
    wbufsize = -1

    def do_GET(self) -> None:
        """Pages, their files, and what they read."""
        if self.headers.get("Host") != self.server.host:
            return self._refuse(
                HTTPStatus.FORBIDDEN,
                ErrorCode.FORBIDDEN,
                f"This is {self.server.host} and no other.",
            )
        address = urlsplit(self.path)
        path, asked = unquote(address.path), parse_qs(address.query, keep_blank_values=True)
        if path == "/" and self._is_key(asked.get("key", [""])[-1]):
            cookie = f"{self.server.cookie}={self.server.key}; Path=/; HttpOnly; SameSite=Strict"
            return self._send(
                HTTPStatus.SEE_OTHER,
                "text/plain",
                b"",
                {"Location": self.server.first_page, "Set-Cookie": cookie},
            )
        if not self._is_key(self._kept_key()):
            what = "Open the address that `tinkerscript view` printed, with its key."
            return self._refuse(HTTPStatus.FORBIDDEN, ErrorCode.FORBIDDEN, what)
        if path.startswith("/v1/"):
            return self._answer(path, asked)
        return self._file(path)

    do_HEAD = do_GET

    def _answer(self, path: str, asked: dict[str, list[str]]) -> None:
        try:
            answer = self.server.answers.get(path, asked)
        except (NotFound, Conflict, InvalidRequest) as refusal:
            status, code = REFUSALS[type(refusal)]
            return self._refuse(status, code, refusal.message, refusal.hint)
        except ValueError as wrong:  # a number that is none
            return self._refuse(HTTPStatus.BAD_REQUEST, ErrorCode.INVALID_REQUEST, str(wrong))
        return self._send(HTTPStatus.OK, "application/json", json.dumps(answer).encode())

    def _file(self, path: str) -> None:
        if path in self.server.files:
            return self._send(HTTPStatus.OK, *self.server.files[path])
        if path.startswith("/assets/"):
            return self._refuse(HTTPStatus.NOT_FOUND, ErrorCode.NOT_FOUND, "There is no such file.")
        # every address of the console's own is the same page
        return self._send(HTTPStatus.OK, *self.server.files["/"])

    def _kept_key(self) -> str:
        try:
            kept = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return ""
        return kept.value if kept else ""

    def _is_key(self, key: str) -> bool:
        return hmac.compare_digest(key.encode(), self.server.key.encode())

    def _refuse(
        self,
        status: HTTPStatus,
        code: ErrorCode,
        message: str,
        hint: str = "",
        *,
        close: bool = False,
    ) -> None:
        body = ErrorBody(error=ErrorDetail(code=code, message=message, hint=hint))
        more = {"Connection": "close"} if close else {}  # the rest of the request is not read
        self._send(status, "application/json", body.model_dump_json().encode(), more)

    def _send(
        self, status: HTTPStatus, kind: str, body: bytes, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (HEADERS | (more or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Of the base class, for other methods and for what is no HTTP."""
        method = code == HTTPStatus.NOT_IMPLEMENTED
        status = HTTPStatus.METHOD_NOT_ALLOWED if method else HTTPStatus(code)
        what = "An exported run is only read." if method else (message or status.phrase)
        name = ErrorCode.METHOD_NOT_ALLOWED if method else ErrorCode.INVALID_REQUEST
        self._refuse(status, name, what, close=True)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal shows the address."""
