"""The demo user can sign in with what the command printed, and use the key."""

import io
import json

import pytest
from django.contrib.auth import authenticate
from django.core.management import call_command

from console.users.keys import key_authenticate
from console.users.models import User

pytestmark = pytest.mark.django_db


def seed() -> dict[str, str]:
    output = io.StringIO()
    call_command("seed_demo", stdout=output)
    return json.loads(output.getvalue())


def test_the_printed_password_and_key_work_and_only_the_latest_password_does():
    first, second = seed(), seed()
    user = User.objects.get(email=second["email"])
    assert not user.check_password(first["password"])
    assert user.check_password(second["password"])
    assert key_authenticate(secret=second["api_key"]).user == user
    assert authenticate(email=user.email, password=second["password"]) == user
