"""A batch is passed on piece by piece, and half of one never looks like a whole one."""

import asyncio
import gc

import pytest
from aiohttp import web

from console.asgi import application
from support.asgi_calls import Call

pytestmark = pytest.mark.django_db(transaction=True)


def get(session_id: str, name: str, key: str) -> Call:
    return Call(application, "GET", f"/v1/sessions/{session_id}/batches/{name}", key=key)


async def test_a_batch_arrives_while_the_gateway_still_makes_it(gateway, served, api_key) -> None:
    seen = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        await response.write(b'{"kind":"batch"}\n')
        await seen.wait()
        await response.write(b'{"kind":"sample"}\n')
        return response

    gateway.answer = answer
    call = get(served.id, "refused-epi_1", api_key)
    status, headers = await call.start()
    assert (status, headers["content-type"]) == (200, "application/x-ndjson")
    assert (await call.message())["body"] == b'{"kind":"batch"}\n'
    seen.set()
    assert await call.body() == b'{"kind":"sample"}\n'
    await call.task
    assert gateway.requests[0][0].path == "/batches/refused-epi_1"


# Django leaves the spooled body of a request to the collector when its answer breaks off.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_gateway_that_dies_in_the_middle_breaks_the_answer(
    gateway, served, api_key
) -> None:
    async def die(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"kind":"batch"}\n')
        request.transport.abort()
        return response

    gateway.answer = die
    call = get(served.id, "1", api_key)
    assert (await call.start())[0] == 200
    with pytest.raises(Exception, match=r"(?i)payload|connection|closed|reset|disconnected"):
        await call.body()
    del call
    gc.collect()


async def test_an_unknown_batch_keeps_the_gateways_refusal(gateway, served, api_key) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"error": {"code": "not_found"}}, status=404)

    gateway.answer = answer
    call = get(served.id, "9", api_key)
    status, _, body = await call.answer()
    await call.task
    assert (status, body) == (404, b'{"error": {"code": "not_found"}}')


async def test_an_outsider_learns_nothing_of_a_batch(gateway, served, outsider_key) -> None:
    assert (await get(served.id, "1", outsider_key).answer())[0] == 404
    assert not gateway.requests
