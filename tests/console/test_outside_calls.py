"""The playground asks endpoints elsewhere through this server: never its own network, within
bounds.
"""

import asyncio
import json
import socket
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer
from django.test import Client

from console.audit.models import AuditRecord
from console.errors import InvalidRequest, RateLimited
from console.operations import outside_calls
from console.operations.outside_calls import Answered
from console.server.tally import Tally
from console.webhooks.addresses import PublicResolver

ASKED = {"api_key": "k", "body": {"model": "m", "stream": True}}
SAID = {"choices": [{"message": {"role": "assistant", "content": "7"}}]}


def ask(project_id: str = "prj_1", **call: Any) -> Answered:
    return asyncio.run(outside_calls.outside_chat(project_id=project_id, **call))


@pytest.fixture
def sent(monkeypatch) -> list[tuple[str, str, dict[str, Any]]]:
    """What would have left this machine; it is answered with SAID."""
    requests: list[tuple[str, str, dict[str, Any]]] = []

    async def post(
        url: str, api_key: str, body: dict[str, Any], _resolver: object
    ) -> tuple[int, bytes]:
        requests.append((url, api_key, body))
        return 200, json.dumps(SAID).encode()

    monkeypatch.setattr(outside_calls, "_post", post)
    return requests


def test_an_endpoint_is_asked_with_its_key_and_never_streams(sent) -> None:
    answered = ask(base_url="https://models.example.org/v1/", **ASKED)
    assert (answered.status, answered.body) == (200, SAID)
    assert sent == [
        ("https://models.example.org/v1/chat/completions", "k", {"model": "m", "stream": False})
    ]


@pytest.mark.parametrize(
    "base_url",
    [
        "http://models.example.org/v1",
        "https://127.0.0.1/v1",
        "https://169.254.169.254",
        "https://db.internal",
        "x",
        "https://user:pass@models.example.org/v1",
        "https://models.example.org/v1#",
    ],
)
def test_an_address_of_the_servers_own_network_is_refused_before_anything_is_sent(
    sent, base_url
) -> None:
    with pytest.raises(InvalidRequest, match=r"^base_url: ") as refused:
        ask(base_url=base_url, **ASKED)
    assert refused.value.details["fields"][0]["field"] == "base_url" and sent == []


class PrivateName(AbstractResolver):
    """Every name leads into the private network."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        where = {"hostname": host, "host": "10.0.0.7", "port": port}
        return [ResolveResult(**where, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        pass


def test_a_name_that_leads_into_the_private_network_is_refused_in_words() -> None:
    with pytest.raises(InvalidRequest, match="leads to an address that is not public"):
        ask(
            base_url="https://models.example.org/v1",
            resolver=PublicResolver(PrivateName()),
            **ASKED,
        )


@pytest.mark.parametrize(
    "read",
    [
        b"<html>",
        b"[]",
        b"[" * 100_000,
        b" " * (5 << 20),
        b'{"a": "\\ud800"}',
        b'{"a":' * 255 + b"1" + b"}" * 255,
    ],
)
def test_what_is_no_completion_is_said_to_be_none(monkeypatch, read) -> None:
    async def post(*_: object) -> tuple[int, bytes]:
        return 200, read

    monkeypatch.setattr(outside_calls, "_post", post)
    with pytest.raises(InvalidRequest, match="no chat completion"):
        ask(base_url="https://models.example.org/v1", **ASKED)


async def test_no_redirect_is_followed_and_no_more_is_read_than_the_bound(monkeypatch) -> None:
    monkeypatch.setattr(outside_calls, "MAX_ANSWER_BYTES", 1000)
    reached: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        reached.append(request.path)
        if request.path == "/moved":
            raise web.HTTPTemporaryRedirect("/elsewhere")
        return web.Response(body=b" " * (1 << 20))

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with TestServer(app) as endpoint:
        status, _ = await outside_calls._post(  # noqa: SLF001 - as for an address that may be called
            str(endpoint.make_url("/moved")), "k", {}, PublicResolver()
        )
        assert (status, reached) == (307, ["/moved"])
        status, read = await outside_calls._post(  # noqa: SLF001
            str(endpoint.make_url("/long")), "k", {}, PublicResolver()
        )
    assert status == 200 and 1000 < len(read) <= 1000 + (1 << 16)


@pytest.mark.parametrize(
    ("error", "words"), [(TimeoutError(), "within 120 s"), (ConnectionResetError(), "reached")]
)
def test_an_endpoint_that_fails_is_told_and_gives_its_place_back(monkeypatch, error, words) -> None:
    async def post(*_: object) -> tuple[int, bytes]:
        raise error

    monkeypatch.setattr(outside_calls, "_post", post)
    for _ in range(outside_calls.AT_ONCE + 1):
        with pytest.raises(InvalidRequest, match=words):
            ask(base_url="https://models.example.org/v1", **ASKED)


async def test_a_redirect_is_not_followed_and_a_long_answer_not_read_to_its_end(settings) -> None:
    settings.WEBHOOKS_PRIVATE = True  # the endpoint of this test is on this machine
    asked, sent_bytes = [], 0

    async def moved(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response(SAID, status=302, headers={"Location": "/elsewhere"})

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent_bytes
        response = web.StreamResponse()
        await response.prepare(request)
        while sent_bytes < 1 << 28:
            await response.write(bytes(1 << 20))
            sent_bytes += 1 << 20
        return response

    site = web.Application()
    site.add_routes([web.post("/moved/chat/completions", moved)])
    site.add_routes([web.post("/endless/chat/completions", endless), web.get("/elsewhere", moved)])
    async with TestServer(site) as server:
        address = f"http://127.0.0.1:{server.port}"
        answered = await outside_calls.outside_chat(
            project_id="prj_1", base_url=f"{address}/moved", **ASKED
        )
        assert (answered.status, asked) == (302, ["/moved/chat/completions"])
        with pytest.raises(InvalidRequest, match="no chat completion"):
            await outside_calls.outside_chat(
                project_id="prj_1", base_url=f"{address}/endless", **ASKED
            )
    assert sent_bytes < 1 << 26


@pytest.mark.parametrize(
    ("held", "whose"), [({"prj_1": 8}, "this project"), ({"prj_2": 16, "prj_3": 16}, "this server")]
)
def test_no_more_calls_run_at_once_than_a_project_and_the_server_may_have(
    sent, monkeypatch, held, whose
) -> None:
    monkeypatch.setattr(outside_calls, "calls", calls := Tally())
    for project_id, count in held.items():
        calls.count(project_id, count)
    with pytest.raises(RateLimited, match=whose):
        ask(base_url="https://models.example.org/v1", **ASKED)
    calls.count(next(iter(held)), -1)
    ask(base_url="https://models.example.org/v1", **ASKED)
    assert len(sent) == 1 and calls.of_all == sum(held.values()) - 1


def test_the_route_returns_what_the_endpoint_said_and_no_key_is_logged(
    project, alice, sent, caplog
) -> None:
    """The audit log has who called which host, and neither the key nor the messages."""
    client = Client(headers={"X-Project-Id": project.id})
    client.force_login(alice)
    call = {
        "base_url": "https://models.example.org/v1",
        "api_key": "sk-secret",
        "body": {"model": "m", "messages": [{"role": "user", "content": "our secret"}]},
    }
    answer = client.post("/v1/outside-calls", call, content_type="application/json")
    assert (answer.status_code, answer.json()) == (200, {"status": 200, "body": SAID})
    assert "sk-secret" not in caplog.text
    entry = AuditRecord.objects.get(project_id=project.id, content__contains="outside_call")
    assert "sk-secret" not in entry.content and "our secret" not in entry.content
    written = json.loads(entry.content)
    assert (written["actor"], written["target"], written["details"]) == (
        alice.email,
        {"host": "models.example.org"},
        {"model": "m"},
    )
