"""Sign-in with the SAML provider of the settings: the way there and back. What follows is in sign_in.py.

The provider's page posts its response from another site, and a browser sends no cookie of ours along (SameSite). So the
response is checked when it is posted and kept, under a cookie of its own, for the request that the browser makes next:
that one has the cookie of the sign-in that was begun, and with it the id of the request that is answered. An answer is
taken once, in the browser that asked.
"""

import logging
from dataclasses import asdict, dataclass
from typing import Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.helpers import complete_social_login
from allauth.socialaccount.providers.saml.provider import SAMLProvider
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from console.config.saml import Saml
from console.users.providers.sign_in import (
    SAML_ID,
    SocialAccountAdapter,
    begun_sign_in_shorten,
    email_is_confirmed,
    person_key,
    valid_email,
)
from console.users.sign_in_sessions import SessionStore

log = logging.getLogger(__name__)
END_PATH = "/sign-in/saml/finish"
COOKIE, KEPT, KEPT_S = "saml_response", "assertion", 120
REFUSED = "/signin/done?error=response_refused"


@dataclass(frozen=True)
class Assertion:
    """What the provider says about a person, to us, once, in answer to our request ``request_id``."""

    request_id: str
    issuer: str  # the provider's entity id
    person_id: str
    email: str | None
    email_verified: str | None
    groups: list[str] | None  # None: the provider does not say


class SamlProvider(SAMLProvider):
    """What an assertion says about a person, in allauth's words."""

    def extract_uid(self, data: Assertion) -> str:
        return person_key(data.issuer, data.person_id)

    def extract_extra_data(self, data: Assertion) -> dict[str, Any]:
        who = {"issuer": data.issuer, "person_id": data.person_id}
        return who if data.groups is None else who | {"userinfo": {_saml().groups_claim: data.groups}}

    def extract_common_fields(self, data: Assertion) -> dict[str, Any]:
        return {"email": valid_email(data.email)}

    def extract_email_addresses(self, data: Assertion) -> list[EmailAddress]:
        email = valid_email(data.email)
        if email is None:
            return []
        return [
            EmailAddress(email=email, verified=email_is_confirmed(data.email_verified, email, _saml()), primary=True)
        ]

    def redirect(
        self, request: HttpRequest, process: str, next_url: str | None = None, data: Any = None, **kwargs: Any
    ) -> HttpResponse:
        from console.users.providers.saml_responses import request_make

        request_id, location = request_make(_saml())
        self.stash_redirect_state(request, process, next_url, data, state_id=request_id, **kwargs)
        return HttpResponseRedirect(location)


def sign_in_begin(request: HttpRequest, *, next_path: str) -> str:
    """The provider's address that the browser goes to; it comes back to ``next_path``.

    Raises httpx.HTTPError, ValueError where the provider's metadata cannot be had.
    """
    begun_sign_in_shorten(request)
    return _provider(request).redirect(request, "login", next_url=next_path, headless=True).headers["Location"]


def sign_in_receive(request: HttpRequest) -> HttpResponse:
    """Keep what the provider's page posted, if genuine, and send the browser to END_PATH. No one is signed in yet.

    Where to go afterwards is in the session of the browser: RelayState is not signed, and is not looked at.
    """
    from console.users.providers.saml_responses import ResponseRefused, response_read

    try:
        assertion = response_read(_saml(), request.POST.get("SAMLResponse", ""))
    except ResponseRefused as refusal:
        log.warning("a SAML response was refused: %s", refusal)
        return HttpResponseRedirect(REFUSED)
    if not assertion.person_id:
        log.warning("a SAML response was refused: its id of the person is empty")
        return HttpResponseRedirect(REFUSED)
    kept = SessionStore()
    kept.set_expiry(KEPT_S)
    kept[KEPT] = asdict(assertion)
    kept.create()
    response = HttpResponseRedirect(END_PATH)
    response.set_cookie(
        COOKIE,
        str(kept.cookie),
        max_age=KEPT_S,
        path=END_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


def sign_in_end(request: HttpRequest) -> HttpResponse:
    """Redirects to ``next_path`` of the beginning, with ``error`` where it failed."""
    kept = SessionStore.of_cookie(request.COOKIES.get(COOKIE))
    assertion = Assertion(**kept[KEPT]) if KEPT in kept else None
    kept.flush()
    provider = _provider(request)
    try:
        if assertion is None:
            raise PermissionDenied("nothing was received")
        state = provider.unstash_redirect_state(request, assertion.request_id)
    except PermissionDenied:
        log.warning("a SAML response was refused: this browser has not asked for it, or had its answer")
        response: HttpResponse = HttpResponseRedirect(REFUSED)
    else:
        request.has_sign_up_rules = False  # type: ignore[attr-defined] # of the form: is_open_for_signup has them here
        sociallogin = provider.sociallogin_from_response(request, assertion)
        sociallogin.state = state
        response = complete_social_login(request, sociallogin)
    response.delete_cookie(COOKIE, path=END_PATH, samesite="Lax")
    return response


def sign_in_metadata() -> bytes:
    """What the provider is given."""
    from console.users.providers.saml_responses import our_metadata

    return our_metadata(_saml())


def _provider(request: HttpRequest) -> SamlProvider:
    provider: SamlProvider = SocialAccountAdapter(request).get_provider(request, SAML_ID)
    return provider


def _saml() -> Saml:
    assert settings.SAML is not None, "only a server with a provider has these pages"
    return settings.SAML
