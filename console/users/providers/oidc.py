"""Sign-in with the OpenID Connect provider of the settings: the way there and back, and what it
says about a person.

What follows from that is in sign_in.py.
"""

from collections.abc import Iterable
from typing import Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from requests.exceptions import InvalidURL

from console.config.sign_up import is_loopback
from console.users.providers.sign_in import (
    OIDC_ID,
    SocialAccountAdapter,
    begun_sign_in_shorten,
    email_is_confirmed,
    person_key,
    provider_parts,
    valid_email,
)

CALLBACK_PATH = "/sign-in/oidc/callback"
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint")


class Endpoints(OpenIDConnectOAuth2Adapter):
    """The provider's endpoints, and the one redirect URI that is registered with it."""

    @property
    def openid_config(self) -> dict[str, Any]:
        """What the provider says about itself. Raises RequestException.

        That an ID token is the provider's is shown by TLS alone: it comes from the token endpoint,
        and allauth does not check its signature then (OpenID Connect Core 1.0, 3.1.3.7, 6).
        """
        config: dict[str, Any] = super().openid_config
        for name in ENDPOINTS:
            address = str(config.get(name, ""))
            is_local = address.startswith("http://") and is_loopback(address)
            if not (address.startswith("https://") or is_local):
                raise InvalidURL(
                    f"the identity provider's {name} is {address!r}: it needs https://"
                )
        return config

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        # allauth would take it from the Host header, which is not always the public name.
        return f"{settings.PUBLIC_URL}{CALLBACK_PATH}"


class OidcProvider(OpenIDConnectProvider):
    """What the provider says about a person, taken strictly."""

    oauth2_adapter_class = Endpoints
    supports_token_authentication = False  # a token from elsewhere is no sign-in

    def extract_uid(self, data: dict[str, Any]) -> str:
        """As person_key returns it. Raises OAuth2Error. Sections are those of OpenID Connect Core
        1.0.
        """
        if not data.get("id_token"):  # 3.1.3.3; it says who has issued the id
            raise OAuth2Error("The provider sent no ID token.")
        subjects = {str(part.get("sub") or "") for part in provider_parts(data)}
        if len(subjects) != 1 or "" in subjects:  # 5.3.2
            raise OAuth2Error("ID token and userinfo are about different people, or about nobody.")
        return person_key(data["id_token"]["iss"], subjects.pop())

    def extract_common_fields(self, data: dict[str, Any]) -> dict[str, Any]:
        return super().extract_common_fields(data) | {"email": _email(data)}

    def extract_email_addresses(self, data: dict[str, Any]) -> list[EmailAddress]:
        email = _email(data)
        if email is None:
            return []
        assert settings.OIDC is not None
        claim = _claims(data, ["email_verified"])["email_verified"]
        return [
            EmailAddress(
                email=email, verified=email_is_confirmed(claim, email, settings.OIDC), primary=True
            )
        ]


def sign_in_begin(request: HttpRequest, *, next_path: str) -> str:
    """The provider's address that the browser goes to; it comes back to ``next_path``. Raises
    RequestException.
    """
    begun_sign_in_shorten(request)
    provider = SocialAccountAdapter(request).get_provider(request, OIDC_ID)
    response: HttpResponse = provider.redirect(request, "login", next_url=next_path, headless=True)
    return response.headers["Location"]


def sign_in_end(request: HttpRequest) -> HttpResponse:
    """What the provider sent the browser back with; redirects to ``next_path``, with ``error``
    where it failed.
    """
    request.has_sign_up_rules = False  # type: ignore[attr-defined] # of the form: is_open_for_signup has them here
    response: HttpResponse = OAuth2CallbackView.adapter_view(Endpoints(request, OIDC_ID))(request)
    return response


def _claims(data: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """These claims by the first part that has an address: they belong together."""
    part = next((part for part in provider_parts(data) if part.get("email")), {})
    return {name: part.get(name) for name in names}


def _email(data: dict[str, Any]) -> str | None:
    return valid_email(_claims(data, ["email"])["email"])
