"""How django-allauth does things here: users with a project each, second factors encrypted, ends of
sign-ins kept, and a stranger's wrong passwords do not lock a person out.

Wrong passwords are counted by account and network, and by address over all accounts. Guesses at one
account from many networks are counted together too; a network that the person has signed in from in
the last weeks is not stopped by those. What is known is kept in the cache: where that is lost, an
account under attack is safe but shut for an hour.
"""

import hashlib
import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from allauth.account import signals
from allauth.account.adapter import DefaultAccountAdapter, get_adapter
from allauth.core import context, ratelimit
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.usersessions.adapter import DefaultUserSessionsAdapter
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.db import transaction
from django.dispatch import receiver
from django.forms import Form
from django.http import HttpRequest

from console.users.models import User
from console.users.passwords.backend import mismatch
from console.users.sealing import seal, unseal
from console.users.services import project_create_default
from console.users.sign_ins import signed_out_elsewhere
from console.users.sign_up import address_check, sign_up_refusal

KNOWN_FOR_S = 60 * 24 * 3600
PREFIX = {4: 24, 6: 64}  # what one household or office has


@dataclass(frozen=True)
class Site:
    """What mail templates know of this server."""

    domain: str
    name: str


class AccountAdapter(DefaultAccountAdapter):
    """Gives everyone who signs up a project of their own; names the server in mails by its public
    name alone.
    """

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        # allauth would take the name from the Host header, which the one who asked for the mail
        # wrote.
        name = urlsplit(settings.PUBLIC_URL).netloc
        super().send_mail(
            template_prefix, email, context | {"current_site": Site(domain=name, name=name)}
        )

    def get_client_ip(self, request: HttpRequest) -> str:
        """An address of IPv4 as one, also where a socket or a proxy for both writes it as one of
        IPv6: by their network all of those would be one client.
        """
        address: str = super().get_client_ip(request)
        try:
            mapped = getattr(ipaddress.ip_address(address), "ipv4_mapped", None)
        except ValueError:
            return address
        return str(mapped or address)

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        # allauth counts by account alone: anyone could lock anyone out.
        account = super()._get_login_attempts_cache_key(request, **credentials)
        return f"{account}|{_network(request)}"

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        super().pre_authenticate(request, **credentials)
        account = str(credentials.get("email", "")).lower()
        if _is_known(request, account):
            return
        if not ratelimit.consume(request, action="login_elsewhere", key=account):
            self._rollback_login_failed_rl_usage()
            raise self.validation_error("too_many_login_attempts")

    def validation_error(self, code: str, *args: Any) -> ValidationError:
        if code == "email_password_mismatch":
            return ValidationError(mismatch(), code=code)
        error: ValidationError = super().validation_error(code, *args)
        return error

    def send_account_already_exists_mail(self, email: str) -> None:
        # A new account's password is hashed: without as much work here the time would tell who has
        # one.
        make_password(secrets.token_urlsafe())
        super().send_account_already_exists_mail(email)

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return settings.SIGN_UP.policy != "closed"

    def clean_email(self, email: str) -> str:
        cleaned: str = super().clean_email(email)
        address_check(cleaned)
        # A signed-in user adds an address to the account that they have; who comes by the identity
        # provider may have an account already.
        is_sign_up = not context.request.user.is_authenticated and getattr(
            context.request, "has_sign_up_rules", True
        )
        if is_sign_up and (refusal := sign_up_refusal(cleaned)):
            raise ValidationError(refusal)
        return cleaned

    def save_user(self, request: HttpRequest, user: User, form: Form, commit: bool = True) -> User:
        with transaction.atomic():
            user = super().save_user(request, user, form, commit=commit)
            if commit:
                project_create_default(user=user)
        return user


class SignInsAdapter(DefaultUserSessionsAdapter):
    """Writes down that sign-ins of other browsers were ended."""

    def end_sessions(self, sessions: Sequence[UserSession]) -> None:
        with transaction.atomic():
            super().end_sessions(sessions)
            if others := [session for session in sessions if not session.is_current()]:
                signed_out_elsewhere(context.request, others[0].user, count=len(others))


class MFAAdapter(DefaultMFAAdapter):
    """Keeps the secrets of authenticators encrypted: the database alone makes no codes."""

    def encrypt(self, text: str) -> str:
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        return unseal(encrypted_text)


def _network(request: HttpRequest) -> str:
    """The network of the client's address."""
    address = get_adapter().get_client_ip(request)
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:  # a socket that has none
        return address
    return str(ipaddress.ip_network(f"{address}/{PREFIX[version]}", strict=False))


def _is_known(request: HttpRequest, account: str) -> bool:
    """Whether ``account``, an address in lower case, has signed in from the client's network
    lately.
    """
    return cache.get(_signed_in_key(request, account)) is not None


@receiver(signals.user_logged_in)
def network_remember(request: HttpRequest, user: User, **_: Any) -> None:
    cache.set(_signed_in_key(request, user.email.lower()), True, KNOWN_FOR_S)


def _signed_in_key(request: HttpRequest, account: str) -> str:
    return "signed-in:" + hashlib.sha256(f"{account}|{_network(request)}".encode()).hexdigest()
