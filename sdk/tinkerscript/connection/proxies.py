"""Which proxy a connection goes through: the one that was given, else that of the environment.

The variables are read here, and not by httpx: it takes ``NO_PROXY=localhost,[::1]`` for an error,
and no networks. HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, in small letters too, are URLs of http,
https and socks5 proxies. NO_PROXY is a list of names (with what is below them), addresses, networks
and ``*``; a name or an address may have a port.
"""

import importlib.util
import ipaddress
import os
import urllib.request
from collections.abc import Mapping, Sequence

import httpx

from tinkerscript.errors import InvalidRequest

SCHEMES = ("http", "https", "socks5", "socks5h")
NO_PROXY = ("no_proxy", "NO_PROXY")


def proxy_for(url: str, given: str | None) -> str | None:
    """The URL of the proxy for ``url``; None without one. The environment's is never used for this
    machine itself.

    Raises InvalidRequest, naming the option or the variable, for one that cannot be used.
    """
    if given is not None:
        return _checked(given, "proxy")
    if is_loopback(url):
        return None
    proxy = _of_environment(httpx.URL(url).scheme)
    return None if proxy is None or _goes_past(httpx.URL(url)) else proxy


def without_password(proxy: str) -> str:
    """``proxy`` without its user and password."""
    address = httpx.URL(proxy)
    return str(address.copy_with(username="", password="")) if address.userinfo else proxy


def is_loopback(url: str) -> bool:
    """Whether ``url`` points at this machine."""
    host = httpx.URL(url).host
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def past_proxies(hosts: Sequence[str], environ: Mapping[str, str]) -> str:
    """The value of NO_PROXY for another program: what both spellings of ``environ`` have, and
    ``hosts``. In the form that every client reads: ``*`` alone, and addresses without brackets,
    at which httpx fails."""
    kept = [part for name in NO_PROXY for part in _entries(environ.get(name, ""))]
    plain = [part[1:-1] if part[0] == "[" and part[-1] == "]" else part for part in kept]
    return "*" if "*" in plain else ",".join(dict.fromkeys([*plain, *hosts]))


def _entries(value: str) -> list[str]:
    return [entry for part in value.split(",") for entry in part.split()]


def _of_environment(scheme: str) -> str | None:
    for kind in (scheme, "all"):
        # of the system's settings too, on macOS and Windows
        if value := urllib.request.getproxies().get(kind):
            name = f"{kind}_proxy"
            return _checked(
                value, next((each for each in (name, name.upper()) if each in os.environ), name)
            )
    return None


def _checked(value: str, name: str) -> str:
    """``value`` as the URL of a proxy. Raises InvalidRequest with its ``name``."""
    proxy = value if "://" in value else f"http://{value}"
    try:
        address = httpx.URL(proxy)
        shown = without_password(proxy)
        fits = bool(address.host) and (address.port is None or 0 < address.port < 2**16)
    except (httpx.InvalidURL, ValueError):
        address, shown, fits = httpx.URL(""), value.rpartition("@")[2], False
    if fits and address.scheme not in SCHEMES:
        raise InvalidRequest(
            f"{name} is {shown}: a proxy of {address.scheme} cannot be used.",
            hint=f"Give a URL of {', '.join(SCHEMES)}, or unset {name}.",
        )
    if not fits:
        raise InvalidRequest(
            f"{name} is {shown!r}, which is not the address of a proxy.",
            hint="Give a URL such as http://proxy.example.com:3128, with an IPv6 address in "
            "brackets.",
        )
    if address.scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        raise InvalidRequest(
            f"{name} is {shown}: a SOCKS proxy needs the package socksio.",
            hint="Install it: pip install 'httpx[socks]'. Or put the server's name into NO_PROXY.",
        )
    return proxy


def _goes_past(url: httpx.URL) -> bool:
    """Whether NO_PROXY has the host of ``url``. Raises InvalidRequest for a network that is
    none."""
    name = next((each for each in NO_PROXY if os.environ.get(each)), None)
    if name is None:
        return bool(urllib.request.proxy_bypass(url.host))  # the system's own list
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    return any([_holds(entry, url.host, port, name) for entry in _entries(os.environ[name])])


def _holds(entry: str, host: str, port: int | None, name: str) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        try:
            network = ipaddress.ip_network(entry.replace("[", "").replace("]", ""), strict=False)
        except ValueError:
            raise InvalidRequest(
                f"{name} has {entry!r}, which is not a network.",
                hint="A network is an address and a mask, such as 10.0.0.0/8 or fd00::/8.",
            ) from None
        return (address := _address(host)) is not None and address in network
    entry, wanted = _apart(entry)
    if wanted is not None and wanted != str(port):
        return False
    if (address := _address(host)) is not None:
        return address == _address(entry)
    entry = entry.lower().lstrip("*").lstrip(".").rstrip(".")
    host = host.lower().rstrip(".")
    return bool(entry) and (host == entry or host.endswith(f".{entry}"))


def _apart(entry: str) -> tuple[str, str | None]:
    """The host and the port, if it has one."""
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        return host, rest.removeprefix(":") or None
    if entry.count(":") == 1:
        host, _, port = entry.partition(":")
        return host, port or None
    return entry, None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
