"""The certificates by which this process knows the control plane and the store."""

import ssl
from functools import cache

import httpx


@cache
def tls_context() -> ssl.SSLContext:
    """That of every client. To read the certificates takes 25 ms or more of the loop that serves
    the gateway, and each step opens several clients.
    """
    return httpx.create_ssl_context(trust_env=False)
