"""Where a webhook may lead: not into the network that the server stands in.

The name is looked up when a delivery is sent, and the connection goes to an address that was judged
then: a name that pointed elsewhere when the webhook was made gains nothing by it.
"""

import asyncio
import ipaddress
import re
import socket
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from django.conf import settings

from console.errors import InvalidRequest

# Of IANA's special-purpose registries (RFC 6890), what Python 3.11 takes for an address of the
# Internet. A cloud's metadata has been at 192.0.0.192.
SPECIAL = [ipaddress.ip_network(each) for each in ("192.0.0.0/24", "3fff::/20", "5f00::/16")]
NAT64 = ipaddress.ip_network("64:ff9b::/96")
NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*"
)  # percent signs, which some clients decode, have no place
NUMBER = re.compile(
    r"[0-9]+|0x[0-9a-f]*"
)  # as a last label it makes the whole host an address (URL Standard, "ends in a number")
# RFC 6761, 6762, 8375, and the domain that ICANN keeps for private use
NOT_PUBLIC = (
    ".localhost",
    ".local",
    ".localdomain",
    ".home.arpa",
    ".internal",
    ".test",
    ".invalid",
    ".onion",
)
NOT_REACHABLE = "Give an https URL whose host can be reached from the Internet."


class AddressRefused(OSError):
    """The name leads to an address that is not public."""


def url_check(url: str) -> None:
    """Raises InvalidRequest for a URL that may not be called, whichever address its name has."""
    if problem := url_problem(url):
        raise InvalidRequest.of_field(
            "url", problem, hint=NOT_REACHABLE, message=f"url: {problem}."
        )


def url_problem(url: str) -> str:
    """What is wrong with a URL; empty when nothing is."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "it is not a URL"
    if (
        not url.isascii()
        or not url.isprintable()
        or " " in url
        or "\\" in url
        or not host
        or port == 0
    ):
        return "it is not a URL"
    if parts.username is not None or parts.password is not None or parts.fragment:
        return "it may carry no user, password or fragment"
    if settings.WEBHOOKS_PRIVATE:
        return "" if parts.scheme in ("http", "https") else "it must begin with http:// or https://"
    if parts.scheme != "https":
        return "it must begin with https://"
    literal, name = _literal(host.rstrip(".")), host.removesuffix(".")
    if literal is not None:
        return "" if is_public(literal) else "its address is not public"
    if not NAME.fullmatch(name) or NUMBER.fullmatch(name.rpartition(".")[2]):
        return "its host is neither a name nor an address"
    if "." not in name or any(f".{name}".endswith(suffix) for suffix in NOT_PUBLIC):
        return "its host is a name of a private network"
    return ""


def is_public(address: str) -> bool:
    """Whether an IP address is one of the Internet's, and not one that stands for another that is
    not.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None and not is_public(str(inner)):
            return False
    if any(ip in network for network in SPECIAL):
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _literal(host: str) -> str | None:
    """The IP address that a host is, however it is written (``127.1`` and ``0x7f.1`` are loopback
    too).
    """
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None


class PublicResolver(AbstractResolver):
    """Looks names up, and gives out none of their addresses when one is not public."""

    def __init__(self, inner: AbstractResolver | None = None) -> None:
        self._inner = inner or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises AddressRefused, OSError."""
        async with asyncio.timeout(5):
            found = await self._inner.resolve(host, port, family)
        if not settings.WEBHOOKS_PRIVATE and not all(is_public(entry["host"]) for entry in found):
            raise AddressRefused(f"{host} leads to an address that is not public")
        return found

    async def close(self) -> None:
        await self._inner.close()


def public_client(resolver: PublicResolver, *, timeout_s: float) -> aiohttp.ClientSession:
    """A client that asks ``resolver`` for each connection, and keeps and takes nothing besides."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False),
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )
