"""GET /v1/server: which version this is, for a caller of any scope."""

from django.test import Client

from support import factories
from tinkerscript.wire.account import Scope
from tinkerscript.wire.dialects.table import DIALECTS
from tinkerscript.wire.version import VERSION


def test_it_returns_version_oldest_client_and_capabilities(project, alice, client_for) -> None:
    key = factories.key_make(project, alice, [Scope.EPISODES])
    answer = client_for(key).get("/v1/server").json()
    assert (answer["version"], answer["minimum_client"]) == (VERSION, "0.2.0")
    named = answer["capabilities"]
    assert "openai.chat" in named and named == sorted(set(named))
    for row in DIALECTS:
        assert row.capabilities and set(row.capabilities) <= set(named)


def test_a_caller_without_a_key_learns_nothing(client: Client) -> None:
    assert client.get("/v1/server").status_code == 401
