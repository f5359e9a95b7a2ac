"""One HTTP connection to the control plane: typed bodies, typed errors, and retries that cannot do
a thing twice.

Every request has a timeout and every series of retries a bound. Whatever may be sent twice carries
one ``Idempotency-Key``, the same on each try, so a lost response costs nothing.
"""

import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypedDict, TypeVar, Unpack, overload

import httpx
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from tinkerscript.errors import (
    ClientClosed,
    InvalidRequest,
    ServerUnreachable,
    TinkerScriptError,
    UnexpectedAnswer,
)
from tinkerscript.wire.version import VERSION

from . import forks
from .error_responses import NOT_OURS, error_from_response, excerpt, is_page
from .http_client import CONNECT_TIMEOUT_S, HttpOptions, http_client_for, proxy_of, unreachable
from .retries import delay_s, is_transient
from .waiting import Outages

R = TypeVar("R", bound=BaseModel)

# What people take for a server's address: an agent's base_url, the REST API, pages of the console.
PARTS = ("/openai/v1", "/openai", "/api/v1", "/v1", "/console", "/keys", "/sessions", "/docs")
_INHERITED: list[httpx.Client] = []  # kept: to close the parent's sockets is not the child's affair


class Sending(TypedDict, total=False):
    """How a request is sent, beside its method and path."""

    body: BaseModel | None
    idempotent_key: str | None
    params: dict[str, Any] | None
    timeout_s: float | None
    retry_timeout_s: float | None


class Transport:
    """Requests under one origin with one bearer token. Safe to share between threads; a forked
    process has its own.

    ``options.timeout_s`` bounds one try (each connect, read and write of it), ``retry_timeout_s``
    all tries of one request. ``http`` replaces the client that ``options`` would make.

    Example: ``Transport("http://127.0.0.1:8000", key).request("GET", "/v1/account",
    response=AccountView)``
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        options: HttpOptions = HttpOptions(),
        retry_timeout_s: float = 300.0,
        http: httpx.Client | None = None,
    ) -> None:
        self.base_url = _checked_base_url(base_url)
        self.token = token
        self.options = options
        self.retry_timeout_s = retry_timeout_s
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "User-Agent": f"tinkerscript/{VERSION}",
        }
        self._http = http or http_client_for(self.base_url, options)
        self._is_own_http = http is None
        self._closed = threading.Event()
        self._outages = Outages()
        forks.watch(self)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed.is_set()

    @overload
    def request(
        self, method: str, path: str, *, response: type[R], **how: Unpack[Sending]
    ) -> R: ...

    @overload
    def request(
        self, method: str, path: str, *, response: None = None, **how: Unpack[Sending]
    ) -> None: ...

    def request(
        self,
        method: str,
        path: str,
        *,
        response: type[R] | None = None,
        **how: Unpack[Sending],
    ) -> R | None:
        """Send, retry while the server is away or busy, and return the parsed body (None when
        ``response`` is None).

        A POST without ``idempotent_key`` is given one. Lost connections and the statuses of
        retries.py are tried again until ``retry_timeout_s`` (0: one try). Every other error, and
        503 ``session_not_ready``, is raised at once. Raises the tree of ``errors``:
        ServerUnreachable when no response came, UnexpectedAnswer when it has another shape.
        """
        reply = self._reply(method, path, **how)
        return None if response is None else _decode(reply, response, what=f"{method} {path}")

    def _reply(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        idempotent_key: str | None = None,
        params: dict[str, Any] | None = None,
        timeout_s: float | None = None,
        retry_timeout_s: float | None = None,
    ) -> httpx.Response:
        headers = dict(self._headers)
        if method == "POST":
            headers["Idempotency-Key"] = idempotent_key or uuid.uuid4().hex
        content = _encode(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        timeout_s = self.options.timeout_s if timeout_s is None else timeout_s
        request = self._http.build_request(
            method,
            self.base_url + path,
            content=content,
            headers=headers,
            params={k: v for k, v in (params or {}).items() if v is not None},
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S)),
        )
        return self._send_with_retries(
            request,
            self.retry_timeout_s if retry_timeout_s is None else retry_timeout_s,
            what=f"{method} {path}",
        )

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[bytes]]:
        """One try of a GET whose body is too large to be held: its pieces, as they come.

        Raises the tree of ``errors``; ServerUnreachable also when the body breaks off.
        """
        request = self._http.build_request(
            "GET", self.base_url + path, headers=self._headers, timeout=self.options.timeout_s
        )
        try:
            reply = self._http.send(request, stream=True)
            try:
                if not reply.is_success:
                    reply.read()
                    raise self._refused(reply, what=f"GET {path}")
                yield reply.iter_bytes()
            finally:
                reply.close()
                self._drop_if_closed(reply)
        except httpx.TransportError as failure:
            raise self._unreachable(failure) from failure
        except httpx.DecodingError as failure:
            raise _undecoded(failure, what=f"GET {path}") from failure

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond close(). Raises ClientClosed."""
        if self._closed.wait(max(0.0, seconds)):
            raise ClientClosed("The client was closed while it waited.")

    def close(self) -> None:
        """End every connection and wake every waiting retry. Safe to call twice."""
        self._closed.set()
        self._http.close()

    def after_fork(self) -> None:
        """Connections of its own for a forked process; its parent's stay open until the parent
        closes them.
        """
        if self._is_own_http:
            _INHERITED.append(self._http)
            self._http = http_client_for(self.base_url, self.options)
        was_closed = self.closed
        self._closed = threading.Event()
        if was_closed:
            self._closed.set()

    def _send_with_retries(
        self, request: httpx.Request, retry_timeout_s: float, *, what: str
    ) -> httpx.Response:
        started = time.monotonic()
        deadline = started + retry_timeout_s
        attempt = 0
        while True:
            outcome = self._try_once(request, what)
            if isinstance(outcome, httpx.Response):
                self._outages.passed()
                return outcome
            pause_s = _pause_before_retry(outcome, attempt)
            if pause_s is None or time.monotonic() + pause_s >= deadline:
                raise outcome
            self._outages.failed(outcome, since=started, deadline=deadline)
            self.sleep(pause_s)
            attempt += 1

    def _try_once(self, request: httpx.Request, what: str) -> httpx.Response | TinkerScriptError:
        if self.closed:
            raise ClientClosed(f"{what} after close().")
        try:
            reply = self._http.send(request)
        except httpx.TransportError as failure:
            return self._unreachable(failure)
        except httpx.DecodingError as failure:
            raise _undecoded(failure, what=what) from failure
        except RuntimeError as failure:  # httpx raises it when close() overtakes a request
            if not self.closed:
                raise
            raise ClientClosed(f"{what} was under way when the client was closed.") from failure
        self._drop_if_closed(reply)
        if reply.is_success:
            return reply
        return self._refused(reply, what=what)

    def _drop_if_closed(self, reply: httpx.Response) -> None:
        """Close the connection of a request that close() overtook: one that was made meanwhile is
        in no pool.
        """
        stream = reply.extensions.get("network_stream")
        if self.closed and stream is not None:
            stream.close()

    def _refused(self, reply: httpx.Response, *, what: str) -> TinkerScriptError:
        return error_from_response(
            reply.status_code, reply.content, reply.headers, what=what, url=self.base_url
        )

    def _unreachable(self, failure: httpx.TransportError) -> ServerUnreachable:
        return unreachable(self.base_url, failure, proxy=proxy_of(self.base_url, self.options))


def _pause_before_retry(error: TinkerScriptError, attempt: int) -> float | None:
    """Seconds until the next try, or None when trying again is wrong."""
    return delay_s(attempt, error.retry_after_s) if is_transient(error) else None


def _undecoded(failure: httpx.DecodingError, *, what: str) -> UnexpectedAnswer:
    """The error of a body that is not compressed as its header has it."""
    return UnexpectedAnswer(
        f"{what} returned a body that cannot be read: {failure}.", hint=NOT_OURS
    )


def _checked_base_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host or url.query or url.fragment:
        has_host = re.match(r"(localhost|[\w-]+\.[\w.-]+)(:\d+)?(/|$)", base_url)
        wanted = f"http://{base_url}" if has_host else "an origin such as http://127.0.0.1:8000"
        hint = f"Give {wanted}, as TINKERSCRIPT_BASE_URL or base_url."
        raise InvalidRequest(f"{base_url!r} is not the address of a server.", hint=hint)
    address = base_url.rstrip("/")
    if part := next((part for part in PARTS if address.endswith(part)), None):
        raise InvalidRequest(
            f"{base_url!r} is a part of a server and not its address.",
            hint=f"Give {address.removesuffix(part)}, as TINKERSCRIPT_BASE_URL or base_url.",
        )
    return address


def _encode(body: BaseModel | None) -> bytes | None:
    if body is None:
        return None
    try:
        # What was not set is left out: an older server refuses fields that it does not know.
        return body.model_dump_json(exclude_unset=True).encode()
    except PydanticSerializationError as failure:
        raise InvalidRequest(
            f"This {type(body).__name__} cannot be sent as JSON: {failure}",
            hint="Use strings, numbers, booleans, lists and dicts only.",
        ) from failure


def _decode(reply: httpx.Response, response: type[R], *, what: str) -> R:
    try:
        # Also in the parts that are refused in a request, such as the options of a session: a newer
        # server has more.
        return response.model_validate_json(reply.content, extra="ignore")
    except ValidationError as failure:
        found = f": {excerpt(reply.content)}" if is_page(reply.content) else ""
        raise UnexpectedAnswer(
            f"{what} returned something that is not a {response.__name__}{found}.",
            hint=NOT_OURS if found else "",
            status=reply.status_code,
            request_id=reply.headers.get("x-request-id", ""),
        ) from failure
