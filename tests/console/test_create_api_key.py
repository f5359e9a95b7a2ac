"""``manage.py create_api_key``: the key alone on stdout, whatever has to be made for it."""

from io import StringIO

import pytest
from allauth.account.models import EmailAddress
from django.core.management import CommandError, call_command

from console.users.keys import key_authenticate
from console.users.models import ApiKey, Project, User
from tinkerscript.wire.account import Scope


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("create_api_key", *arguments, stdout=out)
    return out.getvalue()


def test_it_prints_the_key_and_nothing_else(db):
    printed = run("new@example.com")
    key = key_authenticate(secret=printed.removesuffix("\n"))
    assert key.user.email == "new@example.com"
    assert EmailAddress.objects.get(user=key.user, primary=True).verified
    assert set(key.scopes) == set(Scope) - {Scope.ADMIN}


def test_a_second_key_reuses_user_and_project(db):
    run("new@example.com")
    run("New@Example.com")
    assert (User.objects.count(), Project.objects.count(), ApiKey.objects.count()) == (1, 1, 2)


def test_a_project_is_made_once_and_then_found_by_name_or_id(db):
    keys = [
        key_authenticate(secret=run("new@example.com", "--project", "maths").strip())
        for _ in range(2)
    ]
    by_id = key_authenticate(secret=run("new@example.com", "--project", keys[0].project.id).strip())
    assert {key.project.name for key in [*keys, by_id]} == {"maths"}
    assert {key.project.id for key in [*keys, by_id]} == {keys[0].project.id}


def test_someone_elses_project_of_that_name_stays_theirs(db):
    first = key_authenticate(secret=run("one@example.com", "--project", "maths").strip())
    second = key_authenticate(secret=run("two@example.com", "--project", "maths").strip())
    assert first.project != second.project


def test_scopes_are_those_asked_for(db):
    key = key_authenticate(
        secret=run("new@example.com", "--scopes", "sessions:read, episodes").strip()
    )
    assert key.scopes == ["sessions:read", "episodes"]


@pytest.mark.parametrize(
    "arguments", [("not-an-address",), ("a@example.com", "--scopes", "everything")]
)
def test_bad_input_is_named_and_makes_nothing(db, arguments):
    with pytest.raises(CommandError):
        run(*arguments)
    assert not User.objects.exists()
