"""An OpenID Connect provider in a process of its own (oidc-provider-mock), and a person's way
through its page.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from django.http import HttpResponse
from django.test import Client

from console.config.oidc import SCOPES, GroupRole, Oidc
from console.settings import PUBLIC_URL
from console.users.providers.oidc import CALLBACK_PATH
from support.ports import free_port
from support.waiting import wait_until
from tinkerscript.wire.account import Role

START_S = 120  # beside other work on two cores its imports alone may take more than the usual 25 s
BEGIN = "/sign-in/oidc/begin?next=/signin/done"


@dataclass(frozen=True)
class IdentityProvider:
    """Where it is, and the person that it knows by ``sub``."""

    issuer: str
    client_id: str
    client_secret: str

    def person_set(self, sub: str, **claims: object) -> None:
        """Make or change a person; what is not a claim of scopes, such as groups, is always
        told.
        """
        httpx.put(f"{self.issuer}/users/{sub}", json=claims).raise_for_status()

    def sign_in(self, browser: Client, sub: str) -> HttpResponse:
        """From the console's page through the provider's, and back: the response to the
        redirect.
        """
        return browser.get(self.come_back(browser, sub))

    def come_back(self, browser: Client, sub: str) -> str:
        """From the console's page through the provider's: the path that the browser is sent back
        to.
        """
        location = browser.post(BEGIN).json()["location"]
        assert location.startswith(f"{self.issuer}/")
        back = httpx.post(location, data={"sub": sub})
        assert back.status_code == 302, back.text
        parts = urlsplit(back.headers["location"])
        return f"{parts.path}?{parts.query}"

    def settings(
        self, *, trusted: tuple[str, ...] = (), roles: tuple[tuple[str, str, Role], ...] = ()
    ) -> Oidc:
        """As console.config.oidc reads them."""
        given = tuple(GroupRole(*rule) for rule in roles)
        domains = frozenset(trusted)
        return Oidc(
            self.issuer,
            self.client_id,
            self.client_secret,
            "Lab",
            domains,
            "groups",
            given,
            tuple(SCOPES.split()),
        )


@contextmanager
def identity_provider_start(public_url: str = PUBLIC_URL) -> Iterator[IdentityProvider]:
    """It listens on loopback until the block ends; the server of ``public_url`` is registered with
    it.
    """
    port = free_port()
    options = ["--port", str(port), "--require-registration", "true"]
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        issuer = f"http://127.0.0.1:{port}"
        wait_until(lambda: _responds(issuer), START_S)
        wanted = {
            "redirect_uris": [public_url + CALLBACK_PATH],
            "token_endpoint_auth_method": "client_secret_post",
        }
        client = httpx.post(f"{issuer}/oauth2/clients", json=wanted).raise_for_status().json()
        yield IdentityProvider(issuer, client["client_id"], client["client_secret"])
    finally:
        process.kill()
        process.wait(25)


def _responds(url: str) -> bool:
    try:
        return httpx.get(f"{url}/.well-known/openid-configuration", timeout=2).status_code == 200
    except httpx.TransportError:
        return False
