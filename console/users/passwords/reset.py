"""Setting a password by a mailed link, as django-allauth does it, with the choice to end the
account's API keys too.

Who had the password may have made keys: a new password alone leaves those to them.
"""

import re
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.headless.account.inputs import ResetPasswordInput
from allauth.headless.account.views import ResetPasswordView
from allauth.headless.internal.restkit import inputs
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from console.users.sign_up import keys_end

KEY = re.compile(r"[0-9a-z]{1,13}-.+")  # the account's number in base 36, then its token


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
