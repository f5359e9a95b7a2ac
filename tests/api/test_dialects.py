"""Every dialect of the table, through the whole server: where it is called, and in which form it
refuses.
"""

import json
from typing import Any

import pytest

from api.relay import proxy as relay_proxy
from console.asgi import application
from console.sessions.models import Session
from support.asgi_calls import Call, FakeGateway, episode_key
from support.dialect_forms import error_form, form_of
from support.forwarding import policies_set
from tinkerscript.wire.dialects.error_bodies import Refusal
from tinkerscript.wire.dialects.table import (
    ANTHROPIC,
    DIALECTS,
    OPENAI,
    PREFIX_OF_ALL,
    PREFIXES,
    DialectRow,
    dialect_at,
    dialect_of,
    paths_below,
)
from tinkerscript.wire.sessions import SessionState

pytestmark = pytest.mark.django_db(transaction=True)
CALLS = [f"{prefix}{path}" for prefix in PREFIXES for path in paths_below(prefix)]
NOTHING = [*(f"{prefix}/v1/nothing" for prefix in PREFIXES), "/oai/api/v1/messages"]
OF_EPISODES = [path for row in DIALECTS for path in (*row.paths, *row.of_episodes)]


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("/openai/v1/responses", OPENAI),
        ("/openai/v1/messages", ANTHROPIC),
        ("/openai/v1/messages/count_tokens", ANTHROPIC),
        ("/openai/v1/nothing", OPENAI),
        ("/openai/tokenize", OPENAI),
        ("/oai/api/v1/chat/completions", OPENAI),
        ("/oai/api/v1/messages", OPENAI),
        ("/anthropic/api/v1/messages", ANTHROPIC),
        ("/anthropic/api/v1/nothing", ANTHROPIC),
        ("/v1/messages", ANTHROPIC),
        ("/v1/completions", OPENAI),
    ],
)
def test_the_dialect_of_a_path(path: str, row: DialectRow) -> None:
    assert dialect_of(path) is row


@pytest.mark.parametrize("row", DIALECTS, ids=lambda row: row.prefix)
def test_a_path_of_a_dialect_is_its_own_with_each_prefix_and_without(row: DialectRow) -> None:
    for path in row.paths:
        assert dialect_at(path) is row
        assert dialect_of(PREFIX_OF_ALL + path) is dialect_of(row.prefix + path) is row


def test_what_belongs_to_no_dialect_is_refused_by_the_gateway_in_the_form_of_rest() -> None:
    for path in ("/tokenize", "/episodes", "/healthz", "/nothing", "/openai/v1/messages"):
        assert dialect_at(path) is None


def test_the_bodies_of_errors() -> None:
    refusal = Refusal(404, "No.", "model_not_found", "model", request_id="req_1", details={"a": 1})
    said = {"message": "No.", "type": "invalid_request_error"}
    assert OPENAI.error_body(refusal) == {
        "error": said | {"param": "model", "code": "model_not_found"}
    }
    said = {"message": "No.", "type": "not_found_error", "details": {"a": 1}}
    assert ANTHROPIC.error_body(refusal) == {"type": "error", "error": said, "request_id": "req_1"}


@pytest.mark.parametrize(
    ("row", "status", "kind"),
    [
        (OPENAI, 401, "authentication_error"),
        (OPENAI, 410, "invalid_request_error"),
        (OPENAI, 429, "rate_limit_error"),
        (OPENAI, 503, "server_error"),
        (ANTHROPIC, 401, "authentication_error"),
        (ANTHROPIC, 410, "invalid_request_error"),
        (ANTHROPIC, 413, "request_too_large"),
        (ANTHROPIC, 502, "api_error"),
        (ANTHROPIC, 503, "overloaded_error"),
    ],
)
def test_the_types_of_errors(row: DialectRow, status: int, kind: str) -> None:
    assert row.error_body(Refusal(status, "No."))["error"]["type"] == kind


@pytest.mark.parametrize("path", [*CALLS, *NOTHING, "/v1/sessions"])
async def test_a_websocket_is_426_in_the_form_of_its_path(path: str) -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "client": ("127.0.0.1", 1),
        "extensions": {"websocket.http.response": {}},
        "subprotocols": [],
    }
    await application(scope, receive, send)
    assert [message["type"] for message in sent] == [
        "websocket.http.response.start",
        "websocket.http.response.body",
    ]
    body = sent[1]["body"].decode()
    assert sent[0]["status"] == 426 and "over HTTP" in body
    if path != "/v1/sessions":
        assert form_of(json.loads(body)) == error_form(path)
    sent.clear()
    await application(scope | {"extensions": {}}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize("path", [*CALLS, *NOTHING])
async def test_a_wrong_key_is_refused_in_the_form_of_the_path(path: str) -> None:
    for key in (None, "tml-ts_wrong", "tml-ep-wrong"):
        status, _, body = await Call(application, "POST", path, key=key, body=b"{}").answer()
        assert (status, form_of(json.loads(body))) == (401, error_form(path)), key


@pytest.mark.parametrize("path", PREFIXES)
async def test_a_call_of_a_prefix_alone_is_refused(
    path: str, gateway: FakeGateway, served: Session, api_key: str
) -> None:
    keys = [api_key, *([episode_key(served.id)] if path == PREFIX_OF_ALL else [])]
    for key in keys:
        status, _, body = await Call(application, "POST", path, key=key, body=b"{}").answer()
        assert (status, form_of(json.loads(body))) == (404, error_form(path)), key


@pytest.mark.parametrize("path", OF_EPISODES)
async def test_every_path_of_a_dialect_reaches_the_gateway_with_an_episodes_key(
    gateway: FakeGateway, served: Session, path: str
) -> None:
    call = Call(
        application, "POST", f"{PREFIX_OF_ALL}{path}", key=episode_key(served.id), body=b"{}"
    )
    status, _, body = await call.answer()
    assert (status, json.loads(body)) == (200, {"path": path})


@pytest.mark.parametrize("path", OF_EPISODES)
async def test_refusals_of_the_relay_speak_the_dialect_of_the_path(
    gateway: FakeGateway, served: Session, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    policies_set(monkeypatch, ready_s=0.05)
    monkeypatch.setattr("console.server.ttl_cache.FRESH_S", 0.01)
    monkeypatch.setattr(relay_proxy, "MAX_BODY_BYTES", 100)

    async def refused(key: str | None, body: bytes = b"{}") -> int:
        call = Call(application, "POST", f"{PREFIX_OF_ALL}{path}", key=key, body=body)
        status, _, answer = await call.answer()
        assert form_of(json.loads(answer)) == error_form(path)
        return status

    good = episode_key(served.id)
    assert await refused(None) == 401
    assert await refused(episode_key(served.id, lives_s=-1)) == 410
    assert await refused(good, b"x" * 101) == 413
    await Session.objects.filter(id=served.id).aupdate(state=SessionState.LOADING, address="")
    assert await refused(good) == 503
    assert not gateway.requests
