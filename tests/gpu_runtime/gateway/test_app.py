"""How the gateway is served."""

import socket

import httpx
import pytest
from gateway_harness import Gateway, running_gateway

from gpu_runtime.gateway.app import _listen


def test_connections_do_not_wait_for_delayed_acknowledgements() -> None:
    """asyncio turns Nagle's algorithm off only where the socket names its protocol."""
    with _listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_address_in_use_is_told() -> None:
    with _listen("127.0.0.1", 0) as listener, pytest.raises(OSError, match="in use"):
        _listen("127.0.0.1", listener.getsockname()[1])


async def test_health_needs_no_key(gateway: Gateway) -> None:
    assert (await gateway.http.get("/healthz")).json() == {"status": "ok"}


async def test_gateway_is_gone_once_it_is_left(tmp_path) -> None:
    async with running_gateway(tmp_path) as gateway:
        address = gateway.address
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://{address}/healthz")
