"""How the gateway is served."""

import asyncio
import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gpu_runtime.gateway.app import listen, serve
from support.gateway_harness import Gateway, running_gateway


def test_connections_do_not_wait_for_delayed_acknowledgements() -> None:
    """asyncio turns Nagle's algorithm off only where the socket names its protocol."""
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_address_in_use_is_reported() -> None:
    with listen("127.0.0.1", 0) as listener, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", listener.getsockname()[1])


async def test_health_needs_no_key(gateway: Gateway) -> None:
    assert (await gateway.http.get("/healthz")).json() == {"status": "ok"}


async def test_gateway_is_gone_once_it_is_left(tmp_path) -> None:
    async with running_gateway(tmp_path) as gateway:
        address = gateway.address
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://{address}/healthz")


async def test_who_waits_when_the_gateway_ends_is_cut_off_and_not_refused() -> None:
    """A connection that is lost is tried again elsewhere, by the relay and by REST; an answer would
    be final.
    """
    waits = asyncio.Event()

    async def held(_: Request) -> Response:
        waits.set()
        await asyncio.Event().wait()
        raise AssertionError("no one sets it")

    async with httpx.AsyncClient() as client:
        async with serve(Starlette(routes=[Route("/held", held)]), grace_s=0.05) as address:
            answer = asyncio.create_task(client.get(f"http://{address}/held"))
            await asyncio.wait_for(waits.wait(), 25)
        with pytest.raises(httpx.TransportError):
            await asyncio.wait_for(answer, 25)
