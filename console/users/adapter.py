"""How django-allauth does things here: users like everybody else's, second factors encrypted, ends of sign-ins kept."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.usersessions.adapter import DefaultUserSessionsAdapter
from django.conf import settings
from django.db import transaction

from console.users.sealing import seal, unseal
from console.users.services import project_create_default
from console.users.sign_ins import signed_out_elsewhere


@dataclass(frozen=True)
class Site:
    """What mail templates know of this server."""

    domain: str
    name: str


class AccountAdapter(DefaultAccountAdapter):
    """Gives everyone who signs up a project of their own; names the server in mails by its public name alone."""

    def send_mail(self, template_prefix, email, context):
        # allauth would take the name from the Host header, which is the words of whoever asked for the mail.
        name = urlsplit(settings.PUBLIC_URL).netloc
        super().send_mail(template_prefix, email, context | {"current_site": Site(domain=name, name=name)})

    def save_user(self, request, user, form, commit=True):
        with transaction.atomic():
            user = super().save_user(request, user, form, commit=commit)
            if commit:
                project_create_default(user=user)
        return user


class SignInsAdapter(DefaultUserSessionsAdapter):
    """Writes down that sign-ins of other browsers were ended."""

    def end_sessions(self, sessions):
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
