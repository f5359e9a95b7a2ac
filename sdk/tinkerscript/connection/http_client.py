"""HTTP clients of the SDK: which certificates they trust, and which proxy they use."""

import functools
import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

import certifi  # httpx brings it
import httpx

from tinkerscript.errors import InvalidRequest

CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class HttpOptions:
    """``proxy``: URL of a proxy for every connection; without it those of the environment apply, but never to this
    machine itself. ``ca_file``: PEM file of certificates to trust beside the system's. ``timeout_s`` bounds one try.
    """

    proxy: str | None = None
    ca_file: str | None = None
    timeout_s: float = 30.0


def http_client_for(url: str, options: HttpOptions = HttpOptions()) -> httpx.Client:
    """A client for the host of ``url``. Raises InvalidRequest when an option cannot be used."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    trust_env = options.proxy is None and not is_loopback(url)
    verify = certificates(options.ca_file)
    try:
        return httpx.Client(
            verify=verify, proxy=options.proxy, trust_env=trust_env, limits=limits, follow_redirects=False
        )
    except (ValueError, httpx.InvalidURL) as failure:
        raise InvalidRequest(
            f"{options.proxy!r} is not a proxy: {failure}", hint="Give a URL such as http://proxy.example.com:3128."
        ) from failure


@functools.cache
def certificates(ca_file: str | None = None) -> ssl.SSLContext:
    """The trusted certificates, read once: the system's, those of Mozilla (certifi), and those in ``ca_file``.

    SSL_CERT_FILE and SSL_CERT_DIR, where they are set, replace the first two.
    """
    context = ssl.create_default_context()
    if not os.environ.get("SSL_CERT_FILE") and not os.environ.get("SSL_CERT_DIR"):
        context.load_verify_locations(cafile=certifi.where())
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=Path(ca_file).expanduser())
        except (OSError, ssl.SSLError) as failure:
            raise InvalidRequest(
                f"ca_file {ca_file} cannot be read: {failure}", hint="Give a file of PEM certificates."
            ) from failure
    return context


def is_loopback(url: str) -> bool:
    """Whether ``url`` points at this machine."""
    host = httpx.URL(url).host
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
