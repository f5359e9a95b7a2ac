"""Confirming an address by the mailed link, as django-allauth does it, by who made the account
alone.

Anyone may give another person's address, and its owner may well be waiting for a mail of this
server: an invitation was sent to the same address. One click must not make the address, and the
invitation, those of an account whose password somebody else has. So the link is followed in the
browser that signed up or is signed in, or with the account's password. Who reads the mail and made
no account sets a password by a mailed link, which ends what was made before
(console.users.sign_up).
"""

from typing import Any

from allauth.account.stages import EmailVerificationStage, LoginStageController
from allauth.core import context
from allauth.headless.account.inputs import VerifyEmailInput
from allauth.headless.account.views import VerifyEmailView
from allauth.headless.internal.restkit import inputs
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from console.users.models import User

ASKED = (
    "Type the password of the account that was made with this address, or sign in here and follow "
    "the link again. "
    "If you have made no account, somebody else has: set a password of your own by a mailed link."
)


class Confirmed(VerifyEmailInput):
    """``{key, password}``; ``password`` may be left out in the account's own browser."""

    password = inputs.CharField(required=False)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean()
        if "key" in cleaned:
            user = self.verification.email_address.user
            context.request.is_of_maker = _is_own(context.request, user) or user.check_password(
                cleaned["password"]
            )
            if not context.request.is_of_maker:
                self.add_error("password", ValidationError(ASKED, code="password_required"))
        return cleaned


class AddressConfirmation(VerifyEmailView):
    """allauth's endpoint ``auth/email/verify``."""

    input_class = Confirmed


def _is_own(request: HttpRequest, user: User) -> bool:
    """Whether the browser is signed in to the account, or has shown its password in a sign-up or
    sign-in that waits for the address.
    """
    begun = LoginStageController.enter(request, EmailVerificationStage.key)
    return request.user == user or (begun is not None and begun.login.user == user)
