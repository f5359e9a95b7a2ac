"""A session that is served by a gateway on loopback."""

from collections.abc import AsyncIterator

import pytest
from asgiref.sync import sync_to_async

from api.gateway_client import client_close
from console.sessions.models import Session
from console.users.models import Project
from support.asgi_calls import FakeGateway
from support.factories import runtime_make


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    """A gateway that listens."""
    gateway = FakeGateway()
    await gateway.start()
    yield gateway
    await client_close()
    await gateway.stop()


@pytest.fixture
async def served(gateway: FakeGateway, project: Project) -> Session:
    """A ready session of alice's whose runtime is ``gateway``."""
    session, _lease = await sync_to_async(runtime_make)(project)
    session.address = gateway.address  # a lease begins without one
    await session.asave(update_fields=["address"])
    return session
