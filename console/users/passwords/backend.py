"""Signing in with an address and a password.

Where addresses have to be confirmed, a password of an account that is not is refused as a wrong one
is: whoever signs somebody else's address up could tell by the password that they chose whether
there had been an account. Its owner follows the link of the sign-up, or sets a password by a mailed
link, which confirms the address too. Nothing is mailed by such a sign-in: that would take longer
than a wrong password.
"""

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from allauth.account.internal.userkit import filter_users_by_email
from allauth.account.models import EmailAddress
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from console.users.models import User

MISMATCH = "The e-mail address and the password do not match"
MISMATCH_OR_UNCONFIRMED = (
    f"{MISMATCH}, or the address is not confirmed yet: follow "
    "the link that was mailed to it, or set a new password."
)


class PasswordBackend(AuthenticationBackend):
    """Says alone who has a password, with one hash for each try. The other backends of the settings
    are there for browsers that were signed in by them.
    """

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> User:
        """Raises PermissionDenied, which is the end of a try."""
        user: User | None = super().authenticate(request, **credentials)
        if user is None:
            raise PermissionDenied
        return user

    def _authenticate_by_email(self, email: str, password: str) -> User | None:
        found: list[User] = filter_users_by_email(email, prefer_verified=True, for_login=True)
        if settings.ACCOUNT_EMAIL_VERIFICATION == "mandatory":
            # Not even tried, or the time would tell how many accounts without its owner's word have
            # the address.
            waiting = EmailAddress.objects.filter(email=email.lower(), verified=False).values_list(
                "user_id", flat=True
            )
            unconfirmed = set(waiting)
            found = [user for user in found if user.pk not in unconfirmed]
        return next((user for user in found if self._check_password(user, password)), None)


def mismatch() -> str:
    """Why a sign-in was refused, in words that are the same for each cause."""
    is_confirmed_first = settings.ACCOUNT_EMAIL_VERIFICATION == "mandatory"
    return MISMATCH_OR_UNCONFIRMED if is_confirmed_first else f"{MISMATCH}."
