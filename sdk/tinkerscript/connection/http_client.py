"""HTTP clients of the SDK: which certificates they trust, and which proxy they use."""

import functools
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

import certifi  # httpx brings it
import httpx

from tinkerscript.errors import InvalidRequest, ServerUnreachable

from .error_responses import HINTS
from .proxies import proxy_for, without_password

CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class HttpOptions:
    """``proxy``: URL of a proxy for every connection; without it those of the environment apply,
    but never to this machine itself. ``ca_file``: PEM file of certificates to trust beside the
    system's. ``timeout_s`` bounds one try.
    """

    proxy: str | None = None
    ca_file: str | None = None
    timeout_s: float = 30.0


def http_client_for(url: str, options: HttpOptions = HttpOptions()) -> httpx.Client:
    """A client for the host of ``url``. Raises InvalidRequest when an option cannot be used."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    verify, proxy = certificates(options.ca_file), proxy_for(url, options.proxy)
    try:
        return httpx.Client(
            verify=verify, proxy=proxy, trust_env=False, limits=limits, follow_redirects=False
        )
    except (ValueError, httpx.InvalidURL) as failure:
        raise InvalidRequest(
            f"{without_password(proxy or '')!r} is not a proxy: {failure}",
            hint="Give a URL such as http://proxy.example.com:3128.",
        ) from failure


@functools.cache
def certificates(ca_file: str | None = None) -> ssl.SSLContext:
    """The trusted certificates, read once: the system's, those of Mozilla (certifi), and those in
    ``ca_file``.

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
                f"ca_file {ca_file} cannot be read: {failure}",
                hint="Give a file of PEM certificates.",
            ) from failure
    return context


def proxy_of(url: str, options: HttpOptions) -> str | None:
    """The proxy that a connection to ``url`` goes through, without its user and password; None
    without one.
    """
    proxy = proxy_for(url, options.proxy)
    return None if proxy is None else without_password(proxy)


SERVER_HINT = "Check that the server runs and that TINKERSCRIPT_BASE_URL is its address."


def unreachable(
    base_url: str, failure: httpx.TransportError, *, proxy: str | None, hint: str = SERVER_HINT
) -> ServerUnreachable:
    """The error of a try that got no response. ``hint`` is what to do where the failure does not
    show it."""
    status = None
    if isinstance(failure, httpx.ProxyError) and "407" in str(failure):
        hint, status = HINTS[407], 407  # not tried again
    elif "WRONG_VERSION_NUMBER" in str(failure):  # OpenSSL's words for bytes that are no TLS
        hint = (
            "What listens there does not speak TLS: give its address with http:// instead of "
            "https://."
        )
    elif proxy is not None:
        hint = (
            f"The connection goes through the proxy {proxy}: check that it runs and lets this "
            "address pass, or put"
            f" {httpx.URL(base_url).host} into NO_PROXY."
        )
    elif "CERTIFICATE_VERIFY_FAILED" in str(failure):
        hint = (
            "The server's certificate is signed by no one this machine trusts: give ca_file=, a "
            "PEM file of who did."
        )
    return ServerUnreachable(
        f"No response from {base_url}: {type(failure).__name__}: {failure}".rstrip(": ") + ".",
        hint=hint,
        status=status,
    )
