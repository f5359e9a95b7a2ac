"""A limit per address for requests of callers who are not known, which holds before any work is done for them.

Keys, people and links have limits of their own; a wrong key has none, and costs a query each time. So what an address
sends without having shown who sends it is counted, with the bytes of its bodies, and past the limit refused unread.
Who was let in from anywhere lately passes all the same: a stranger behind the same router shuts nobody else out.

Each process counts for itself.
"""

import hashlib
import ipaddress
import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from django.conf import settings

WINDOW_S = 10
LIMIT = 300  # in a window
BYTES_PER_REQUEST = 16 << 10  # of a body count as one request more
KNOWN_S, MAX_KNOWN = 3600.0, 100_000
IPV6_PREFIX = 64  # what one household has; of IPv4 it is an address
UNCOUNTED = ("/healthz", "/readyz")  # what watches the server asks from one address, and asks for no work


class OverLimit(Exception):
    """``retry_after_s``: when the window ends."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"this address sent too much that nobody known has sent; again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class AddressLimit:
    """What the addresses have sent in this window, and which credentials were right lately (their hashes)."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(16)
        self._window, self._taken = 0, Counter[str]()
        self._known: OrderedDict[bytes, float] = OrderedDict()

    def begin(self, scope: Mapping[str, Any]) -> "Asking":
        """Count a request. Raises OverLimit."""
        credential = credential_of(scope["headers"])
        name = hashlib.sha256(self._salt + credential).digest() if credential else b""
        until = self._known.get(name, 0.0)
        asking = Asking(self, address_of(scope), name, is_known=until > time.monotonic())
        asking.add_requests(1)
        return asking

    def take(self, address: str, weight: int, window: int | None = None) -> int:
        """Add to what ``address`` has taken; returns the window. Back (below 0) only to the window it was taken in."""
        now = int(time.time() // WINDOW_S)
        if now != self._window:
            self._window = now
            self._taken.clear()
        if window in (None, now):
            self._taken[address] = max(0, self._taken[address] + weight)
        return now

    def is_over(self, address: str) -> bool:
        """Whether it has taken more than it may."""
        return self._taken[address] > LIMIT

    def remember(self, name: bytes) -> None:
        """The credential was right."""
        self._known[name] = time.monotonic() + KNOWN_S
        self._known.move_to_end(name)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def forget(self, name: bytes) -> None:
        """It is right no more."""
        self._known.pop(name, None)


class Asking:
    """One request while it is served."""

    def __init__(self, limit: AddressLimit, address: str, name: bytes, *, is_known: bool) -> None:
        self._limit, self._address, self._name, self.is_known = limit, address, name, is_known
        self._weight, self._bytes, self._window = 0, 0, 0

    def add_requests(self, count: int) -> None:
        """Raises OverLimit, not for a known caller."""
        if self.is_known:
            return
        self._window = self._limit.take(self._address, count)
        self._weight += count
        if self._limit.is_over(self._address):
            raise OverLimit(WINDOW_S - int(time.time()) % WINDOW_S)

    def add_bytes(self, size: int) -> None:
        """Of a body. Raises OverLimit."""
        before, self._bytes = self._bytes, self._bytes + size
        if more := self._bytes // BYTES_PER_REQUEST - before // BYTES_PER_REQUEST:
            self.add_requests(more)

    def known(self) -> None:
        """Its caller has shown who it is: others count this request."""
        if self._name:
            self._limit.remember(self._name)
        self._give_back()

    def end(self, status: int) -> None:
        """``status`` of the response; 0 for none. What was asked for in vain stays counted."""
        if status == 401:
            self._limit.forget(self._name)
        elif 0 < status < 400 or status == 410:  # of an episode that is over: its key was right
            self._give_back()

    def _give_back(self) -> None:
        self.is_known = True
        self._limit.take(self._address, -self._weight, self._window)
        self._weight = 0


limit = AddressLimit()
asking_now: ContextVar[Asking | None] = ContextVar("asking_now", default=None)


def caller_known() -> None:
    """Say that the request that is served now is of a key, a person, a lease or a link that this server knows."""
    if asking := asking_now.get():
        asking.known()


class LimitedHandshakes:
    """Websockets of callers who are not known, counted as requests: past the limit the handshake is refused (403)."""

    def __init__(self, inner: Callable[..., Awaitable[Any]]) -> None:
        self._inner = inner

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        try:
            asking = limit.begin(scope)
        except OverLimit:
            await receive()  # websocket.connect
            await send({"type": "websocket.close"})
            return
        before = asking_now.set(asking)
        try:
            await self._inner(scope, receive, send)
        finally:
            asking_now.reset(before)


def address_of(scope: Mapping[str, Any]) -> str:
    """The client's address, as far as proxies of ours say it; of IPv6 its network. Empty for a socket without one."""
    client = scope.get("client")
    address = client[0] if client else ""
    if trusted := settings.ALLAUTH_TRUSTED_PROXY_COUNT:
        named = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for").split(b",")
        address = named[-trusted].decode("latin-1").strip() if named[0] and len(named) >= trusted else address
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if ip.version == 4:
        return str(ip)
    mapped = ip.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.ip_network(f"{ip}/{IPV6_PREFIX}", strict=False))


def credential_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """What shows who sends a request: a key of any dialect, or the cookie of a sign-in; empty without one."""
    cookie = re.compile(rb"(?:^|;)\s*" + re.escape(settings.SESSION_COOKIE_NAME.encode()) + rb"=([^;]+)")
    found = b""
    for name, value in headers:
        if name in (b"authorization", b"x-api-key"):
            return name + value
        if name == b"cookie" and (match := cookie.search(value)):
            found = name + match[1]
    return found
