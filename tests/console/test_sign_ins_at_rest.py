"""What a copy of the database tells about sign-ins: nothing that a browser could send."""

import pytest
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client

from console.users.models import User
from support.signing_in import ask, is_in, signed_in

pytestmark = pytest.mark.django_db


def rows() -> set[str]:
    """Every key of a sign-in that the database holds."""
    keys = set(Session.objects.values_list("session_key", flat=True))
    return keys | set(UserSession.objects.values_list("session_key", flat=True))


def test_no_row_of_a_sign_in_holds_what_its_cookie_holds(alice: User) -> None:
    browser = signed_in(alice)
    cookie = browser.cookies[settings.SESSION_COOKIE_NAME].value
    assert is_in(browser)
    for row in (*Session.objects.values(), *UserSession.objects.values()):
        assert cookie not in str(row)


def test_the_key_of_a_row_signs_no_one_in(alice: User) -> None:
    signed_in(alice)
    (key,) = rows()
    thief = Client()
    thief.cookies[settings.SESSION_COOKIE_NAME] = key
    assert not is_in(thief)
    assert ask(thief, "GET", "auth/session").status_code == 401
    token = Client(headers={"X-Session-Token": key})
    assert not is_in(token) and ask(token, "GET", "auth/session").status_code == 401


def test_a_person_sees_and_ends_their_sign_ins(alice: User) -> None:
    here, there = signed_in(alice), signed_in(alice)
    listed = ask(here, "GET", "auth/sessions").json()["data"]
    assert sorted(entry["is_current"] for entry in listed) == [False, True]
    (other,) = [entry["id"] for entry in listed if not entry["is_current"]]
    assert ask(here, "DELETE", "auth/sessions", {"sessions": [other]}).status_code == 200
    assert is_in(here) and not is_in(there)


def test_a_cookie_is_made_anew_at_sign_in_and_removed_at_sign_out(alice: User) -> None:
    browser = signed_in(alice)
    first = browser.cookies[settings.SESSION_COOKIE_NAME].value
    assert browser.cookies[settings.SESSION_COOKIE_NAME]["httponly"]
    assert ask(browser, "DELETE", "auth/session").status_code == 401
    assert (
        browser.cookies[settings.SESSION_COOKIE_NAME].value == "" and not Session.objects.exists()
    )
    browser.cookies[settings.SESSION_COOKIE_NAME] = first
    assert not is_in(browser)
