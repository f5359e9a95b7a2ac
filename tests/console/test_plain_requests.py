"""Requests with a key go a shorter way through Django: nothing that a client can see is another."""

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from api.lease_process import application as lease_application
from console.asgi import application, django, plain
from console.plain_requests import is_plain
from console.sessions.models import Session
from support import factories
from support.asgi_calls import Call
from support.route_cases import BODIES
from tinkerscript.wire.sessions import SessionState

pytestmark = pytest.mark.django_db(transaction=True)
OWN = {"x-request-id", "ratelimit-remaining", "ratelimit-reset", "date"}  # of each response alone


async def answer(app: Any, method: str, path: str, **given: Any) -> tuple[int, dict[str, str], Any]:
    status, headers, body = await Call(app, method, path, **given).answer()
    if headers.get("content-type") == "application/json" and body:
        body = json.loads(body)
        if isinstance(body, dict):
            body = {name: value for name, value in body.items() if name not in ("request_id", "expires_at")}
    return status, {name: value for name, value in headers.items() if name not in OWN}, body


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/v1/sessions", {"authorization": "Bearer k"}, True),
        ("/v1/sessions", {}, False),
        ("/v1/sessions", {"authorization": "Bearer k", "cookie": "sessionid=1"}, False),
        ("/v1/sessions", {"authorization": "Bearer k", "accept": "text/html,*/*"}, False),
        ("/admin/", {"authorization": "Bearer k"}, False),
        ("/_allauth/browser/v1/auth/session", {"authorization": "Bearer k"}, False),
    ],
)
def test_only_programs_with_a_key_and_without_a_cookie_go_the_shorter_way(path, headers, expected) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert is_plain({"path": path, "headers": pairs}) is expected


@pytest.mark.system
async def test_every_route_returns_the_same_both_ways(api_key, outsider_key, project) -> None:
    session = await sync_to_async(factories.session_make)(project, state=SessionState.STOPPED)
    for method, template in BODIES:
        if method != "GET":
            continue
        path = "/v1" + template.replace("{session_id}", session.id)
        path = path.replace("{", "").replace("}", "")  # the other ids are nobody's
        for key in (api_key, outsider_key, "tml-no-key"):
            whole = await answer(django, "GET", path, key=key)
            assert await answer(plain, "GET", path, key=key) == whole, path


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("POST", "/v1/sessions", b"{", {"content_type": "application/json"}),
        ("POST", "/v1/sessions", b'{"base_model": "none", "no": 1}', {"content_type": "application/json"}),
        ("PUT", "/v1/sessions", b"", {}),
        ("GET", "/v1/nothing", b"", {}),
        ("GET", "/v1/sessions", b"", {"accept": "application/json", "accept_encoding": "gzip"}),
        ("GET", "/v1/sessions", b"", {"host": "no host at all"}),
        ("OPTIONS", "/v1/sessions", b"", {"origin": "https://elsewhere.example"}),
    ],
)
async def test_refusals_and_headers_are_the_same_both_ways(api_key, method, path, body, headers) -> None:
    given = {"key": api_key, "body": body, **headers}
    status, headers, said = await answer(django, method, path, **given)
    plainly = await answer(plain, method, path, **given)
    assert (plainly[0], plainly[2]) == (status, said)
    assert headers.items() <= plainly[1].items()
    assert plainly[1].keys() - headers.keys() <= ({"x-frame-options", "content-length"} if status == 400 else set())


async def test_a_cookie_route_does_not_take_a_key_for_a_person(api_key) -> None:
    whole = await answer(django, "GET", "/v1/account", key=api_key)
    assert await answer(plain, "GET", "/v1/account", key=api_key) == whole


async def test_a_runtime_is_served_by_either_process_alike(project) -> None:
    session, lease = await sync_to_async(factories.runtime_make)(project)
    body = json.dumps({"state": "ready", "phase": "waiting", "progress": 1}).encode()
    given = {"key": lease, "body": body, "content_type": "application/json"}
    path = "/v1/runtime/heartbeat"
    web = await answer(application, "POST", path, **given)
    assert web[0] == 200 and await answer(lease_application, "POST", path, **given) == web
    assert (await Session.objects.aget(id=session.id)).phase == "waiting"
