"""With a collector, what the control plane passes to a gateway is a span, and the gateway gets its
trace.
"""

import asyncio
import json

import pytest
from aiohttp import web

from console.asgi import application
from console.sessions.models import Session
from console.sessions.runtime.leases import lease_check, runtime_register
from console.users.models import Project
from support.asgi_calls import Call, FakeGateway, episode_key
from support.factories import runtime_make
from support.trace_collector import traced
from tinkerscript.processes.tracing import tracing_end
from tinkerscript.wire.sessions import SessionState

pytestmark = pytest.mark.django_db(transaction=True)
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FROM_CLIENT = f"00-{TRACE}-{CALLER}-01"


@pytest.mark.parametrize("name", ["relay", "forward"])
async def test_a_request_goes_on_in_the_trace_of_its_client(
    gateway: FakeGateway, served: Session, api_key: str, name: str
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({}, status=201)

    gateway.answer = answer
    forwarded = (f"/v1/sessions/{served.id}/episodes", api_key)
    path, key = (
        ("/openai/v1/chat/completions", episode_key(served.id)) if name == "relay" else forwarded
    )
    with traced("server") as collector:
        status, _, _ = await Call(
            application,
            "POST",
            path,
            key=key,
            body=json.dumps({}).encode(),
            traceparent=FROM_CLIENT,
        ).answer()
        await asyncio.to_thread(tracing_end)
    span = collector.named(name)
    assert (status, span.trace_id, span.parent_id) == (201, TRACE, CALLER)
    passed = gateway.requests[0][0].headers.getall("traceparent")
    assert passed == [f"00-{TRACE}-{span.span_id}-01"]


async def test_without_a_collector_the_clients_own_header_is_passed_on(
    gateway: FakeGateway, served: Session
) -> None:
    call = Call(
        application,
        "GET",
        "/openai/v1/models",
        key=episode_key(served.id),
        body=b"",
        traceparent=FROM_CLIENT,
    )
    await call.answer()
    assert gateway.requests[0][0].headers["traceparent"] == FROM_CLIENT


def test_a_runtime_is_told_where_the_collector_is(project: Project, settings) -> None:
    session, token = runtime_make(project, SessionState.LOADING)
    assert runtime_register(session=lease_check(token=token)).traces_url is None
    settings.TRACES_URL = "http://127.0.0.1:4318"
    assert runtime_register(session=session).traces_url == "http://127.0.0.1:4318"
