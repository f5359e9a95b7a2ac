"""What the server's secret keeps closed in the database: second factors (encrypted), sign-ins of
browsers (signed).

After a rotation both the secret in force and the one before it open them. Before the older one is
forgotten, ``sealed_renew`` brings every row under the one in force: a rotation ends no sign-in and
loses no second factor.
"""

import base64
import hashlib
import logging
from functools import lru_cache

from allauth.mfa.models import Authenticator
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone

from console.users.sign_in_sessions import SessionStore

log = logging.getLogger(__name__)


def seal(text: str) -> str:
    """Encrypt with the secret in force."""
    return _ciphers().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """Decrypt what the secret in force or the one before it encrypted. Raises InvalidToken."""
    return _ciphers().decrypt(sealed.encode()).decode()


def sealed_renew() -> None:
    """Bring every row under the secret in force. Servers may run meanwhile, and it may be
    interrupted and repeated.
    """
    with transaction.atomic():
        for row in Authenticator.objects.select_for_update():
            try:
                Authenticator.objects.filter(pk=row.pk).update(data=row.data | _resealed(row.data))
            except InvalidToken:
                log.warning(
                    "the second factor %s is of a secret that this server does not know", row.pk
                )
    for session in Session.objects.filter(expire_date__gt=timezone.now()).iterator():
        if content := SessionStore().decode(session.session_data):
            # Unless its owner changed it meanwhile, which signed it anew.
            unchanged = Session.objects.filter(pk=session.pk, session_data=session.session_data)
            unchanged.update(session_data=SessionStore().encode(content))


def _resealed(data: dict) -> dict:
    """The encrypted ones of an authenticator's fields: ``secret`` of TOTP, ``seed`` of recovery
    codes.
    """
    return {name: seal(unseal(data[name])) for name in ("secret", "seed") if name in data}


def _ciphers() -> MultiFernet:
    return MultiFernet(
        [_cipher(secret) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    )


@lru_cache(maxsize=4)
def _cipher(server_secret: str) -> Fernet:
    return Fernet(
        base64.urlsafe_b64encode(hashlib.sha256(f"mfa|{server_secret}".encode()).digest())
    )
