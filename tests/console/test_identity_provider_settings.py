"""TINKERSCRIPT_OIDC_*: how they are read, and what stops start-up."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from console.config.oidc import oidc_read
from tinkerscript.wire.account import Role

GIVEN = {"ISSUER": "https://id.example.org/realm/", "CLIENT_ID": "ts", "CLIENT_SECRET": "secret"}


def read(monkeypatch: pytest.MonkeyPatch, **values: str):
    for name, value in values.items():
        monkeypatch.setenv(f"TINKERSCRIPT_OIDC_{name}", value)
    return oidc_read()


def test_settings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    oidc = read(
        monkeypatch,
        **GIVEN,
        OPTIONS="trusted_domains=Lab.example.org",
        ROLES="cn=ml=prj_1:member, leads=prj_1:owner",
    )
    assert (oidc.issuer, oidc.name, oidc.groups_claim) == (
        "https://id.example.org/realm",
        "id.example.org",
        "groups",
    )
    assert oidc.trusted_domains == {"lab.example.org"}
    assert oidc.scopes == ("openid", "profile", "email")
    assert read(monkeypatch, OPTIONS="scopes=openid  email groups").scopes == (
        "openid",
        "email",
        "groups",
    )
    assert [(rule.group, rule.role) for rule in oidc.roles] == [
        ("cn=ml", Role.MEMBER),
        ("leads", Role.OWNER),
    ]
    assert "secret" not in repr(oidc).replace("client_secret", "")


@pytest.mark.parametrize(
    "values",
    [
        {"CLIENT_ID": "ts"},
        {"ISSUER": "https://id.example.org"},
        GIVEN | {"ISSUER": "http://id.example.org"},
        {"OPTIONS": "name=Lab"},
        GIVEN | {"OPTIONS": "scope=openid"},
        GIVEN | {"ROLES": "ml=prj_1"},
        GIVEN | {"ROLES": "ml=prj_1:king"},
        GIVEN | {"OPTIONS": "trusted_domains=@example.org"},
        GIVEN | {"OPTIONS": "scopes=email groups"},
        GIVEN | {"OPTIONS": "scopes=openid,email"},
        GIVEN | {"OPTIONS": 'scopes=openid "email"'},
    ],
)
def test_settings_that_cannot_be_meant_stop_start_up(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str]
) -> None:
    with pytest.raises(ImproperlyConfigured):
        read(monkeypatch, **values)
