"""What browsers must refuse, on every kind of answer."""

import pytest
from django.test import Client
from pytest_django import Settings

KINDS = [
    "/",
    "/v1/account",
    "/v1/nothing",
    "/openapi.json",
    "/healthz",
    "/_allauth/browser/v1/auth/session",
    "/admin/",
]


@pytest.mark.parametrize("path", KINDS)
def test_every_answer_has_a_policy_against_foreign_scripts_and_frames(
    path: str, client: Client, db: None
) -> None:
    headers = client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert "camera=()" in headers["Permissions-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["/v1/account", "/v1/sessions", "/v1/nothing", "/sign-in/oidc/callback"]
)
def test_no_answer_of_the_api_is_kept_on_the_way(path: str, client: Client, api_key: str) -> None:
    assert (
        client.get(path, headers={"Authorization": f"Bearer {api_key}"}).headers["Cache-Control"]
        == "no-store"
    )


def test_only_a_server_behind_tls_asks_for_tls(client: Client, settings: Settings) -> None:
    assert "Strict-Transport-Security" not in client.get("/healthz").headers
    settings.PUBLIC_URL = "https://train.example.org"
    assert (
        client.get("/healthz").headers["Strict-Transport-Security"].startswith("max-age=31536000")
    )
