"""What browsers send to django-allauth's JSON endpoints is read as strictly as a body of the REST
API.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from console.users.models import NAME_MAX_LENGTH, Project, User
from support.signing_in import JSON, NEW, ask, signed_in

DAMAGED = {
    "nested without end": b"[" * 60_000,
    "a number of 6,000 digits": b'{"email": ' + b"9" * 6_000 + b"}",
    "half of a surrogate pair": rb'{"email": "a@example.com", "password": "\ud800 and a long passphrase"}',
    "a NUL": rb'{"email": "a@example.com", "password": "\u0000 and a long passphrase"}',
    "no UTF-8": b'{"email": "\xff"}',
    "no JSON": b"email=a",
    "too many names": b"{" + b",".join(b'"k%d": 1' % number for number in range(2_000)) + b"}",
}
NAMES = (
    "email",
    "password",
    "key",
    "code",
    "sessions",
    "account",
    "current_password",
    "new_password",
    "primary",
)
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    "-x",
    "1-x",
    1.5,
    2**53 - 1,
    "",
    "x" * 20_000,
    "é" * 300,
    [],
    ["x"],
    [[]],
    {},
    {"x": []},
]


def addresses(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[str]:
    for pattern in patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, address)
        elif address.startswith("_allauth/browser/v1/"):
            yield address.removeprefix("_allauth/browser/v1/")


def test_every_address_is_known() -> None:
    assert len(list(addresses(get_resolver().url_patterns))) >= 15


@pytest.mark.parametrize("body", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("path", ["auth/login", "auth/signup", "auth/password/reset"])
def test_a_body_that_no_endpoint_can_read_is_refused_in_words(
    path: str, body: bytes, db: None
) -> None:
    answer = Client().post(f"/_allauth/browser/v1/{path}", body, content_type=JSON)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "invalid_request"
    assert len(answer.content) < 1_000 and not User.objects.exists()


@pytest.mark.system
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_no_value_is_an_internal_error(method: str, alice: User, settings) -> None:
    settings.ACCOUNT_RATE_LIMITS = {}
    for client in (Client(), signed_in(alice)):
        for path in addresses(get_resolver().url_patterns):
            if path == "auth/session" and method == "DELETE":
                continue  # it signs out, whatever the body
            for odd in ODD:
                answer = ask(client, method, path, dict.fromkeys(NAMES, odd))
                assert answer.status_code < 500, (path, odd)


def test_an_address_longer_than_the_column_is_refused_at_its_field(db: None) -> None:
    answer = ask(Client(), "POST", "auth/signup", NEW | {"email": "q" * 243 + "@example.com"})
    assert answer.status_code == 400 and answer.json()["errors"][0]["param"] == "email", (
        answer.content
    )
    assert (
        ask(
            Client(), "POST", "auth/signup", NEW | {"email": "q" * 242 + "@example.com"}
        ).status_code
        == 200
    )
    assert len(Project.objects.get().name) == NAME_MAX_LENGTH


@pytest.mark.parametrize(
    "path", ["auth/provider/redirect", "auth/provider/token", "account/phone", "auth/phone/verify"]
)
def test_what_the_console_does_not_use_is_not_there(path: str, alice: User) -> None:
    for client in (Client(), signed_in(alice)):
        assert ask(client, "POST", path, {"provider": "oidc"}).status_code == 404
