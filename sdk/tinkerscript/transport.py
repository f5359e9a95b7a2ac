"""One HTTP connection to the control plane: typed bodies, typed errors, and retries that cannot do a thing twice.

Runtimes use it too, with their lease token. Every request has a timeout and every series of retries a bound. Whatever
may be sent twice carries one ``Idempotency-Key``, the same on each try, so a lost answer costs nothing.
"""

import functools
import ipaddress
import random
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

import httpx
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from .errors import ClientClosed, InvalidRequest, ServerUnreachable, TinkerScriptError, UnexpectedAnswer, from_answer

R = TypeVar("R", bound=BaseModel)

CONNECT_TIMEOUT_S = 10.0
BACKOFF_FIRST_S = 0.2
BACKOFF_MOST_S = 10.0
RETRY_AFTER_MOST_S = 60.0
BUSY_STATUSES = frozenset({429, 502, 503, 504})
WAITS_FOR_SESSION = "session_not_ready"  # not an outage: the caller knows how long it wants to wait for a session


def http_client_for(url: str) -> httpx.Client:
    """A client for the host of ``url``. Proxy settings of the environment never apply to this machine itself."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    verify = _certificates()
    return httpx.Client(verify=verify, trust_env=not is_loopback(url), limits=limits, follow_redirects=False)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """The system's trusted certificates, read once: that takes longer than everything else about a client."""
    return httpx.create_ssl_context()


def is_loopback(url: str) -> bool:
    """Whether ``url`` points at this machine."""
    host = httpx.URL(url).host
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def backoff_s(attempt: int) -> float:
    """Seconds to wait after failed try number ``attempt`` (from 0): doubling, capped, with jitter to spread clients."""
    most = min(BACKOFF_MOST_S, BACKOFF_FIRST_S * 2 ** min(attempt, 16))
    return most * random.uniform(0.5, 1.0)


class Transport:
    """Requests under one origin with one bearer token. Safe to share between threads.

    ``timeout_s`` bounds one try (each connect, read and write of it), ``retry_timeout_s`` all tries of one request.

    Example: ``Transport("http://127.0.0.1:8000", key).request("GET", "/v1/account", response=AccountView)``
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        timeout_s: float = 30.0,
        retry_timeout_s: float = 300.0,
        http: httpx.Client | None = None,
    ) -> None:
        self.base_url = _checked_base_url(base_url)
        self.timeout_s = timeout_s
        self.retry_timeout_s = retry_timeout_s
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._http = http or http_client_for(self.base_url)
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed.is_set()

    @overload
    def request(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        response: type[R],
        idempotent_key: str | None = None,
        params: dict[str, Any] | None = None,
        timeout_s: float | None = None,
        retry_timeout_s: float | None = None,
    ) -> R: ...

    @overload
    def request(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        response: None = None,
        idempotent_key: str | None = None,
        params: dict[str, Any] | None = None,
        timeout_s: float | None = None,
        retry_timeout_s: float | None = None,
    ) -> None: ...

    def request(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        response: type[R] | None = None,
        idempotent_key: str | None = None,
        params: dict[str, Any] | None = None,
        timeout_s: float | None = None,
        retry_timeout_s: float | None = None,
    ) -> R | None:
        """Send, retry while the server is away or busy, and answer the parsed body (None when ``response`` is None).

        A POST without ``idempotent_key`` is given one. Lost connections, 502, 503, 504 and 429 are tried again until
        ``retry_timeout_s`` (0: one try); every other error, and 503 ``session_not_ready``, is raised at once.
        Raises the tree of ``errors``: ServerUnreachable when no answer came, UnexpectedAnswer when it has another
        shape.
        """
        headers = dict(self._headers)
        if method == "POST":
            headers["Idempotency-Key"] = idempotent_key or uuid.uuid4().hex
        content = _encode(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        request = self._http.build_request(
            method,
            self.base_url + path,
            content=content,
            headers=headers,
            params={k: v for k, v in (params or {}).items() if v is not None},
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S)),
        )
        answer = self._send_until_answered(
            request, self.retry_timeout_s if retry_timeout_s is None else retry_timeout_s, what=f"{method} {path}"
        )
        return None if response is None else _decode(answer, response, what=f"{method} {path}")

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[bytes]]:
        """One try of a GET whose body is too large to be held: its pieces, as they come.

        Raises the tree of ``errors``; ServerUnreachable also when the body breaks off.
        """
        request = self._http.build_request("GET", self.base_url + path, headers=self._headers, timeout=self.timeout_s)
        try:
            answer = self._http.send(request, stream=True)
            try:
                if not answer.is_success:
                    raise from_answer(answer.status_code, answer.read(), answer.headers, what=f"GET {path}")
                yield answer.iter_bytes()
            finally:
                answer.close()
        except httpx.TransportError as failure:
            raise _unreachable(self.base_url, failure) from failure

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond close(). Raises ClientClosed."""
        if self._closed.wait(max(0.0, seconds)):
            raise ClientClosed("The client was closed while it waited.")

    def close(self) -> None:
        """End every connection and wake every waiting retry. Safe to call twice."""
        self._closed.set()
        self._http.close()

    def _send_until_answered(self, request: httpx.Request, retry_timeout_s: float, *, what: str) -> httpx.Response:
        deadline = time.monotonic() + retry_timeout_s
        attempt = 0
        while True:
            outcome = self._try_once(request, what)
            if isinstance(outcome, httpx.Response):
                return outcome
            delay_s = _delay_before_retry(outcome, attempt)
            if delay_s is None or time.monotonic() + delay_s >= deadline:
                raise outcome
            self.sleep(delay_s)
            attempt += 1

    def _try_once(self, request: httpx.Request, what: str) -> httpx.Response | TinkerScriptError:
        if self.closed:
            raise ClientClosed(f"{what} after close().")
        try:
            answer = self._http.send(request)
        except httpx.TransportError as failure:
            return _unreachable(self.base_url, failure)
        except RuntimeError as failure:  # httpx says so when close() overtakes a request
            if not self.closed:
                raise
            raise ClientClosed(f"{what} was under way when the client was closed.") from failure
        if answer.is_success:
            return answer
        return from_answer(answer.status_code, answer.content, answer.headers, what=what)


def _delay_before_retry(error: TinkerScriptError, attempt: int) -> float | None:
    """Seconds until the next try, or None when trying again is wrong."""
    if isinstance(error, ServerUnreachable) and error.status is None:
        return backoff_s(attempt)
    if error.status not in BUSY_STATUSES or error.code == WAITS_FOR_SESSION:
        return None
    if error.retry_after_s is None:
        return backoff_s(attempt)
    # At least a little, so that "Retry-After: 0" from a broken server is no busy loop.
    return min(max(error.retry_after_s, BACKOFF_FIRST_S / 2), RETRY_AFTER_MOST_S)


def _unreachable(base_url: str, failure: httpx.TransportError) -> ServerUnreachable:
    return ServerUnreachable(
        f"No answer from {base_url}: {type(failure).__name__}: {failure}".rstrip(": "),
        hint="Check that the server runs and that TINKERSCRIPT_BASE_URL is its address.",
    )


def _checked_base_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host or url.query or url.fragment:
        raise InvalidRequest(
            f"{base_url!r} is not the address of a server.", hint="Give an origin such as http://127.0.0.1:8000."
        )
    return base_url.rstrip("/")


def _encode(body: BaseModel | None) -> bytes | None:
    if body is None:
        return None
    try:
        return body.model_dump_json().encode()
    except PydanticSerializationError as failure:
        raise InvalidRequest(
            f"This {type(body).__name__} cannot be sent as JSON: {failure}",
            hint="Use strings, numbers, booleans, lists and dicts only.",
        ) from failure


def _decode(answer: httpx.Response, response: type[R], *, what: str) -> R:
    try:
        return response.model_validate_json(answer.content)
    except ValidationError as failure:
        raise UnexpectedAnswer(
            f"{what} was answered with something that is not a {response.__name__}.",
            status=answer.status_code,
            request_id=answer.headers.get("x-request-id", ""),
        ) from failure
