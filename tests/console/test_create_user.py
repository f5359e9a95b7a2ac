"""``manage.py create_user``: a user who can sign in with what it prints."""

from io import StringIO

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command

from console.users.models import User
from console.users.selectors import project_get


def run(email: str) -> str:
    out = StringIO()
    call_command("create_user", email, stdout=out)
    return out.getvalue().strip()


def test_the_printed_password_signs_in(db) -> None:
    password = run("Ann@example.com")
    user = User.objects.get(email="ann@example.com")
    assert (
        user.check_password(password) and authenticate(email=user.email, password="wrong") is None
    )
    assert project_get(user=user).name == "ann"
    assert EmailAddress.objects.get(user=user, email="ann@example.com", primary=True).verified


def test_an_address_that_is_taken_or_none_is_refused(db) -> None:
    run("ann@example.com")
    with pytest.raises(CommandError, match="there already"):
        run("ann@example.com")
    with pytest.raises(CommandError, match="no e-mail address"):
        run("ann")
