"""Sign-in with the OpenID Connect provider of the settings, through django-allauth.

Only an address that the provider has confirmed counts: it is what a new account is made with, and what leads to the
account that is there. Without that, anyone who may choose their address at the provider would choose another person's.
What someone else made with an address before its owner came ends as at a first confirmation (console.users.sign_up).
"""

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from allauth.account.models import EmailAddress
from allauth.account.signals import user_logged_in
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.dispatch import receiver
from django.forms import Form
from django.http import HttpRequest, HttpResponse

from console.config.oidc import Oidc
from console.users.group_roles import group_roles_apply
from console.users.models import User
from console.users.services import project_create_default
from console.users.sign_up import address_prove, sign_up_refusal

log = logging.getLogger(__name__)
PROVIDER_ID = "oidc"
CALLBACK_PATH = "/sign-in/oidc/callback"
# The provider says who still belongs here when it is asked: a sign-in by it lasts a working day.
SIGN_IN = timedelta(hours=12)
BEGUN_S = 600  # as long as allauth takes the provider's response
UNCONFIRMED = "unconfirmed_address"


class Endpoints(OpenIDConnectOAuth2Adapter):
    """The provider's endpoints, and the one redirect URI that is registered with it."""

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        # allauth would take it from the Host header, which is not always the public name.
        return f"{settings.PUBLIC_URL}{CALLBACK_PATH}"


class OidcProvider(OpenIDConnectProvider):
    """What the provider says about a person, taken strictly."""

    oauth2_adapter_class = Endpoints
    supports_token_authentication = False  # a token from elsewhere is no sign-in

    def extract_uid(self, data: dict[str, Any]) -> str:
        subjects = {str(part["sub"]) for part in _parts(data)}
        if len(subjects) != 1:  # OpenID Connect Core 1.0, 5.3.2
            raise OAuth2Error("ID token and userinfo are about different people.")
        return subjects.pop()

    def extract_common_fields(self, data: dict[str, Any]) -> dict[str, Any]:
        return super().extract_common_fields(data) | {"email": _email(data)}

    def extract_email_addresses(self, data: dict[str, Any]) -> list[EmailAddress]:
        email = _email(data)
        return [EmailAddress(email=email, verified=_is_confirmed(data, email), primary=True)] if email else []


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """Which account a sign-in at the provider leads to, and whether one is made."""

    def authenticate_by_email(self, sociallogin: SocialLogin) -> tuple[User, str] | None:
        for address in sociallogin.email_addresses:
            if address.verified and (user := _owner(address.email)):
                return user, address.email
        return None

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        if sociallogin.account.pk is not None:
            return  # linked before: the provider's id of the person is enough
        confirmed = [address.email for address in sociallogin.email_addresses if address.verified]
        if not confirmed:
            raise ValidationError("The identity provider has not confirmed this address.", code=UNCONFIRMED)
        address_prove(email=confirmed[0], user=sociallogin.user if sociallogin.is_existing else None)

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        """A group that gives a role is an invitation."""
        inviting = {rule.group for rule in _oidc().roles}
        if settings.SIGN_UP.policy == "invited" and inviting & (_groups(sociallogin) or frozenset()):
            return True
        return sign_up_refusal(sociallogin.email_addresses[0].email) is None

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Form | None = None) -> User:
        with transaction.atomic():
            user: User = super().save_user(request, sociallogin, form)
            if form is None:  # else by the form's adapter
                project_create_default(user=user)
        return user


@receiver(user_logged_in)
def signed_in(request: HttpRequest, user: User, sociallogin: SocialLogin | None = None, **_: Any) -> None:
    """Give the browser session its length: a password's is Django's own, also after a sign-in that was only begun."""
    # A time, not a number of seconds: those would begin anew whenever the session is saved.
    request.session.set_expiry(None if sociallogin is None else SIGN_IN)
    if sociallogin is not None:
        _roles_apply(user, sociallogin)


def sign_in_begin(request: HttpRequest, *, next_path: str) -> str:
    """The provider's address that the browser goes to; it comes back to ``next_path``. Raises RequestException."""
    if not request.user.is_authenticated:
        request.session.set_expiry(BEGUN_S)  # anyone may begin, and each time a row is kept
    provider = SocialAccountAdapter(request).get_provider(request, PROVIDER_ID)
    response: HttpResponse = provider.redirect(request, "login", next_url=next_path, headless=True)
    return response.headers["Location"]


def sign_in_end(request: HttpRequest) -> HttpResponse:
    """What the provider sent the browser back with; redirects to ``next_path``, with ``error`` where it failed."""
    request.has_sign_up_rules = False  # type: ignore[attr-defined] # of the form: is_open_for_signup has them here
    response: HttpResponse = OAuth2CallbackView.adapter_view(Endpoints(request, PROVIDER_ID))(request)
    return response


def _oidc() -> Oidc:
    assert settings.OIDC is not None, "nobody comes by a provider that there is not"
    return settings.OIDC


def _owner(email: str) -> User | None:
    """Whose address this is: who has confirmed it before who has merely given it."""
    address = EmailAddress.objects.filter(email__iexact=email, verified=True).select_related("user").first()
    return address.user if address else User.objects.filter(email__iexact=email).first()


def _roles_apply(user: User, sociallogin: SocialLogin) -> None:
    oidc, groups = _oidc(), _groups(sociallogin)
    if not oidc.roles:
        return
    if groups is None:
        log.warning(
            "The identity provider sent no groups of %s in the claim %s: roles stay as they are. "
            "TINKERSCRIPT_OIDC_GROUPS_CLAIM and TINKERSCRIPT_OIDC_SCOPES say where groups are and what is asked for.",
            user.email,
            oidc.groups_claim,
        )
        return
    group_roles_apply(user=user, groups=groups, rules=oidc.roles)


def _groups(sociallogin: SocialLogin) -> frozenset[str] | None:
    """The person's groups by the first part that has the claim; None where the provider does not say.

    A claim that is absent is not an empty list: a mapper may be gone, or the groups too many for a token.
    """
    for part in _parts(sociallogin.account.extra_data):
        claim = part.get(_oidc().groups_claim)
        if isinstance(claim, str) and claim:
            return frozenset({claim})
        if isinstance(claim, list):
            return frozenset(str(group) for group in claim)
    return None


def _parts(data: dict[str, Any]) -> list[dict[str, Any]]:
    """What the provider said, by userinfo and by ID token."""
    return [part for name in ("userinfo", "id_token") if (part := data.get(name))]


def _claims(data: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """These claims by the first part that has an address: they belong together."""
    part = next((part for part in _parts(data) if part.get("email")), {})
    return {name: part.get(name) for name in names}


def _email(data: dict[str, Any]) -> str | None:
    email = _claims(data, ["email"])["email"]
    try:
        validate_email(email)
    except ValidationError:
        return None
    return str(email).lower()


def _is_confirmed(data: dict[str, Any], email: str) -> bool:
    """By the claim, which some providers send as text; where there is none, by a domain that the operator trusts."""
    claim = _claims(data, ["email_verified"])["email_verified"]
    if claim is None:
        return email.rpartition("@")[2] in _oidc().trusted_domains
    return claim is True or claim == "true"
