"""ID tokens that prove nothing: issued by or to somebody else, too old, about others, or brought by
a browser.
"""

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from pytest_django import Settings

from console.config.oidc import oidc_provider
from console.config.sign_up import SignUp
from console.users.models import User
from support.false_provider import CLIENT_ID, FalseProvider, false_provider_start
from support.identity_provider import BEGIN
from support.signing_in import ask, is_in


@pytest.fixture
def provider(settings: Settings, db: None):
    with false_provider_start() as provider:
        settings.OIDC = provider.known.settings()
        settings.SOCIALACCOUNT_PROVIDERS = oidc_provider(settings.OIDC)
        settings.SIGN_UP = SignUp("open", frozenset(), "mandatory")
        settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
        yield provider


def come() -> tuple[Client, str]:
    """A browser that has come back from the provider, and where it was sent then."""
    browser = Client()
    asked = parse_qs(urlsplit(browser.post(BEGIN).json()["location"]).query)
    return browser, browser.get(f"/sign-in/oidc/callback?code=x&state={asked['state'][0]}").headers[
        "Location"
    ]


def test_a_right_token_is_taken(provider: FalseProvider) -> None:
    browser, location = come()
    assert location == "/signin/done" and is_in(browser)


FALSE: dict[str, Callable[[FalseProvider], None]] = {
    "of another issuer": lambda provider: provider.token.update(iss="https://other.example.org"),
    "of no issuer": lambda provider: provider.token.update(iss=None),
    "for another audience": lambda provider: provider.token.update(aud="another-client"),
    "for no audience": lambda provider: provider.token.update(aud=None),
    "expired": lambda provider: provider.token.update(exp=int(time.time()) - 60),
    "about another person than userinfo": lambda provider: provider.token.update(sub="mallory"),
    "about nobody": lambda provider: provider.token.update(sub=None),
    "with userinfo about nobody": lambda provider: provider.userinfo.update(sub=None),
    "none at all": lambda provider: setattr(provider, "has_token", False),
}


@pytest.mark.parametrize("falsify", FALSE.values(), ids=FALSE.keys())
def test_a_token_that_proves_nothing_leads_nowhere(
    provider, falsify: Callable[[FalseProvider], None]
) -> None:
    falsify(provider)
    browser, location = come()
    assert "error=" in location and not is_in(browser)
    assert not User.objects.exists() and not SocialAccount.objects.exists()


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "userinfo_endpoint"])
@pytest.mark.parametrize(
    "address", ["http://id.example.org/x", "http://127.0.0.1.example.org/x", "//127.0.0.1", None]
)
def test_a_provider_is_asked_where_nobody_on_the_way_could_be_it(
    provider, caplog, name: str, address: str
) -> None:
    """TLS alone shows that an ID token is the provider's. On this machine there is nobody on the
    way.
    """
    browser = Client()
    asked = parse_qs(urlsplit(browser.post(BEGIN).json()["location"]).query)
    provider.about[name] = address
    assert Client().post(BEGIN).status_code == 503
    assert (
        f"the identity provider's {name} is" in caplog.text and "it needs https://" in caplog.text
    )
    back = browser.get(f"/sign-in/oidc/callback?code=x&state={asked['state'][0]}")
    assert "error=" in back.headers["Location"] and not is_in(browser)


def test_a_provider_that_is_gone_when_the_browser_comes_back_is_no_error_of_this_server(
    provider, settings
) -> None:
    browser = Client()
    asked = parse_qs(urlsplit(browser.post(BEGIN).json()["location"]).query)
    settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["settings"]["server_url"] = (
        "http://127.0.0.1:9"
    )
    back = browser.get(f"/sign-in/oidc/callback?code=x&state={asked['state'][0]}")
    assert back.headers["Location"] == "/signin/done?error=unknown" and not is_in(browser)


def test_a_token_that_a_browser_brings_is_no_sign_in(provider: FalseProvider) -> None:
    """It need not come by the provider: only what the provider itself sends to this server, by TLS,
    counts.
    """
    token: dict[str, Any] = {
        "client_id": CLIENT_ID,
        "id_token": provider.page("/token")["id_token"],
    }
    browser = Client()
    for process in ("login", "connect"):
        body = {"provider": "oidc", "process": process, "token": token}
        assert ask(browser, "POST", "auth/provider/token", body).status_code in (400, 401, 403, 404)
    assert not is_in(browser) and not User.objects.exists()
