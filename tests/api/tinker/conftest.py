"""Tinker clients of two projects."""

from collections.abc import AsyncIterator

import pytest
from asgiref.sync import sync_to_async

from api.gateway_client import client_close
from console.users.models import Project, User
from support.factories import key_make, user_make
from support.forwarding import policies_set
from support.tinker_client import Client


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for a runtime that does not come."""
    policies_set(monkeypatch, ready_s=0.3)
    monkeypatch.setattr("console.server.ttl_cache.FRESH_S", 0.01)


@pytest.fixture
async def alices(project: Project, alice: User) -> AsyncIterator[Client]:
    yield Client(await sync_to_async(key_make)(project, alice))
    await client_close()


@pytest.fixture
async def eves() -> Client:
    return Client(
        await sync_to_async(
            lambda: key_make((user := user_make("eve")).memberships.get().project, user)
        )()
    )
