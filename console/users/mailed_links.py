"""Confirming an address and setting a password by a mailed link, as django-allauth does both, with
what it leaves open.

Anyone may give another person's address, and its owner may well be waiting for a mail of this
server: an invitation was sent to the same address. One click must not make the address, and the
invitation, those of an account whose password somebody else has. So the link of a confirmation is
followed in the browser that signed up or is signed in, or with the account's password. Who reads
the mail and made no account sets a password by a mailed link, which ends what was made before
(console.users.sign_up).

Who had the password may have made API keys: a new password alone leaves those to them. So a
password is set with the choice to end them too.
"""

import re
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.stages import EmailVerificationStage, LoginStageController
from allauth.core import context
from allauth.headless.account.inputs import ResetPasswordInput, VerifyEmailInput
from allauth.headless.account.views import ResetPasswordView, VerifyEmailView
from allauth.headless.internal.restkit import inputs
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from console.users.models import User
from console.users.sign_up import keys_end

KEY = re.compile(r"[0-9a-z]{1,13}-.+")  # the account's number in base 36, then its token
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


class Reset(ResetPasswordInput):
    """``{key, password, end_keys}``; ``end_keys`` may be left out."""

    end_keys = inputs.BooleanField(required=False)

    def clean_key(self) -> str:
        if not KEY.fullmatch(self.cleaned_data["key"]):  # allauth fails at it
            raise get_adapter().validation_error("invalid_password_reset")
        key: str = super().clean_key()
        return key


class PasswordReset(ResetPasswordView):
    """allauth's endpoint ``auth/password/reset``."""

    input_class = Reset

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with transaction.atomic():
            response = super().post(request, *args, **kwargs)
            if self.input.cleaned_data["end_keys"]:
                keys_end(
                    user=self.input.user,
                    reason="a password was set by a mailed link, and the keys ended with it",
                )
        return response
