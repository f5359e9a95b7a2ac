"""An OpenID Connect provider on loopback whose ID token says, signed or not, whatever a test wants
it to say.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt

from support.identity_provider import IdentityProvider

CLIENT_ID = "us"


@dataclass
class FalseProvider:
    """``token``: claims that take the place of the right ones, None for no such claim.
    ``has_token``: sends one.

    ``about``: what it says about itself in the place of what is right.
    """

    issuer: str
    token: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    has_token: bool = True

    @property
    def known(self) -> IdentityProvider:
        """As the settings of our server name it."""
        return IdentityProvider(self.issuer, CLIENT_ID, "secret")

    def page(self, path: str) -> dict[str, Any]:
        person = {"sub": "nina", "email": "nina@lab.example.org", "email_verified": True}
        if path == "/userinfo":
            return _without_none(person | self.userinfo)
        if path == "/token":
            right = person | {
                "iss": self.issuer,
                "aud": CLIENT_ID,
                "iat": int(time.time()),
                "exp": time.time() + 300,
            }
            token = jwt.encode(_without_none(right | self.token), None, algorithm="none")
            return {"access_token": "x", "token_type": "Bearer"} | (
                {"id_token": token} if self.has_token else {}
            )
        about = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }
        return _without_none(about | self.about)


@contextmanager
def false_provider_start() -> Iterator[FalseProvider]:
    """It listens until the block ends."""
    listener = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    provider = FalseProvider(f"http://127.0.0.1:{listener.server_port}")
    listener.RequestHandlerClass = _handler(provider)
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def _handler(provider: FalseProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.dumps(provider.page(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _without_none(claims: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in claims.items() if value is not None}
