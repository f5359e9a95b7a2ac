"""LLM calls pass through: bytes both ways, as they come, to the gateway that serves the session
now.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from api import forward
from api.relay import proxy as relay_proxy
from api.relay.proxy import headers_passed
from console.asgi import application
from console.sessions.models import Session
from support.asgi_calls import Call, FakeGateway, episode_key
from support.forwarding import policies_set
from support.waiting import eventually
from tinkerscript.wire.episode_key import SERVING
from tinkerscript.wire.sessions import SessionState

pytestmark = pytest.mark.django_db(transaction=True)
CHAT = "/openai/v1/chat/completions"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    policies_set(monkeypatch, ready_s=0.3)
    monkeypatch.setattr("console.server.ttl_cache.FRESH_S", 0.01)


def chat(
    session: Session, body: bytes = b'{"model": "m"}', path: str = CHAT, **headers: str
) -> Call:
    return Call(application, "POST", path, key=episode_key(session.id), body=body, **headers)


async def update(session: Session, **fields: object) -> None:
    await Session.objects.filter(id=session.id).aupdate(**fields)


def code_of(body: bytes) -> str:
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error["code"]


async def test_a_stream_is_passed_on_piece_by_piece(gateway: FakeGateway, served: Session) -> None:
    turns: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while piece := await turns.get():
            await response.write(piece)
        return response

    gateway.answer = stream
    call = chat(served)
    for number in range(3):  # each piece arrives before the next one is even made
        piece = f"data: {number}\n\n".encode()
        turns.put_nowait(piece)
        if number == 0:
            status, headers = await call.start()
            assert (status, headers["content-type"]) == (200, "text/event-stream")
        message = await call.message()
        assert (message["body"], message["more_body"]) == (piece, True)
    turns.put_nowait(None)
    assert await call.body() == b""
    await call.task


async def test_path_query_body_and_answer_pass_unchanged(gateway, served) -> None:
    body = bytes(range(256)) * 4000

    async def echo(request: web.Request) -> web.Response:
        return web.Response(
            body=await request.read(), status=418, headers={"X-Own": "1", "Content-Encoding": "odd"}
        )

    gateway.answer = echo
    status, headers, answer = await chat(served, body, "/openai/v1/a%20b?x=%2F&y=1").answer()
    assert (status, answer) == (418, body)
    assert (headers["x-own"], headers["content-encoding"]) == ("1", "odd")
    assert gateway.requests[0][0].raw_path == "/v1/a%20b?x=%2F&y=1"


async def test_headers_of_one_connection_stay_on_it(gateway, served) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(
            text="ok",
            headers={"Keep-Alive": "timeout=5", "Upgrade": "h2", "Proxy-Authenticate": "Basic"},
        )

    gateway.answer = answer
    sent = {
        "connection": "X-Secret, close",
        "x_secret": "1",
        "te": "trailers",
        "x_relay_key": "forged",
        "cookie": "a=b",
    }
    key = episode_key(served.id)
    call = Call(
        application,
        "POST",
        CHAT,
        key=key,
        body=b"{}",
        accept="text/event-stream",
        x_kept="1",
        **sent,
    )
    _, headers, _ = await call.answer()
    received = gateway.requests[0][0].headers
    assert not {"X-Secret", "TE", "X-Relay-Key", "Cookie", "Proxy-Authorization"} & set(received)
    assert (received["X-Kept"], received["Accept"]) == ("1", "text/event-stream")
    assert received["Authorization"] == f"Bearer {key}"
    assert received["Host"] == gateway.address
    assert not {"keep-alive", "upgrade", "proxy-authenticate", "transfer-encoding"} & set(headers)


async def test_a_runtime_sets_nothing_for_the_whole_origin(gateway, served) -> None:
    whole_origin = (
        "Alt-Svc", "Clear-Site-Data", "Link", "Location", "NEL", "Public-Key-Pins", "Refresh", "Report-To",
        "Reporting-Endpoints", "Service-Worker-Allowed", "Set-Cookie2", "Strict-Transport-Security",
    )  # fmt: skip

    async def answer(request: web.Request) -> web.Response:
        response = web.Response(text="ok", headers=dict.fromkeys((*whole_origin, "X-Its-Own"), "x"))
        response.set_cookie("sessionid", "an attacker's")
        return response

    gateway.answer = answer
    _, headers, _ = await chat(served).answer()
    passed = {name for name in (*map(str.lower, whole_origin), "set-cookie") if name in headers}
    assert passed == set() and headers["x-its-own"] == "x"


async def test_a_request_has_an_id_and_keeps_the_one_it_came_with(gateway, served) -> None:
    _, headers, _ = await chat(served).answer()
    assert gateway.requests[0][0].headers["X-Request-Id"] == headers["x-request-id"]
    assert headers["x-request-id"].startswith("req_")
    await chat(served, x_request_id="mine").answer()
    assert gateway.requests[1][0].headers["X-Request-Id"] == "mine"


async def test_when_the_client_goes_the_request_upstream_goes_too(gateway, served) -> None:
    is_there, is_gone = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        is_there.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_gone.set()

    gateway.answer = slow
    call = chat(served)
    async with asyncio.timeout(25):
        await is_there.wait()
        await call.start()
        call.disconnect()
        await is_gone.wait()
        await call.task


@pytest.mark.parametrize("when", ["waiting for a runtime", "before the first byte"])
async def test_a_client_that_goes_early_ends_its_request(when, gateway, served) -> None:
    async def hang(request: web.Request) -> web.Response:
        await asyncio.Event().wait()

    gateway.answer = hang
    if when == "waiting for a runtime":
        await update(served, state=SessionState.LOADING, address="")
    call = chat(served)
    if when == "before the first byte":
        await eventually(lambda: bool(gateway.requests))
    call.disconnect()
    async with asyncio.timeout(25):
        await call.task


async def test_a_restart_of_the_runtime_is_a_slow_answer(gateway, served, monkeypatch) -> None:
    policies_set(monkeypatch, ready_s=25)

    async def die(request: web.Request) -> web.Response:
        request.transport.abort()
        return web.Response()

    gateway.answer = die
    call = chat(served, b"the body")
    await eventually(lambda: bool(gateway.requests))
    await gateway.stop()
    await update(served, state=SessionState.QUEUED, address="")
    restarted = FakeGateway()
    await restarted.start()
    try:
        await update(served, state=SessionState.READY, address=restarted.address)
        status, headers, _ = await call.answer()
        assert status == 200
        again, body = restarted.requests[0]
        assert body == b"the body"
        assert again.headers["X-Request-Id"] == gateway.requests[0][0].headers["X-Request-Id"]
        assert headers["x-request-id"] == again.headers["X-Request-Id"]
    finally:
        await restarted.stop()


async def test_a_whole_answer_that_breaks_off_is_asked_for_again(gateway, served) -> None:
    tries = 0

    async def break_off(request: web.Request) -> web.StreamResponse:
        nonlocal tries
        tries += 1
        if tries > 1:
            return web.json_response({"try": tries})
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Content-Length": "100"}
        )
        await response.prepare(request)
        await response.write(b'{"half": ')
        request.transport.abort()
        return response

    gateway.answer = break_off
    status, _, body = await chat(served).answer()
    assert (status, json.loads(body)) == (200, {"try": 2})


def broken_off_after(
    piece: bytes, is_received: asyncio.Event
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A gateway's answer that loses its connection once the client has ``piece``."""

    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(piece)
        async with asyncio.timeout(25):
            await is_received.wait()
        request.transport.abort()
        return response

    return break_off


async def test_a_stream_that_breaks_off_reports_it(gateway, served) -> None:
    is_received = asyncio.Event()
    gateway.answer = broken_off_after(b"data: 1\n\n", is_received)
    call = chat(served)
    assert (await call.start())[0] == 200
    assert (await call.message())["body"] == b"data: 1\n\n"
    is_received.set()
    body = await call.body()
    assert code_of(body.rpartition(b"data: ")[2]) == "upstream_lost"
    assert len(gateway.requests) == 1  # what the client has seen cannot be begun again


async def test_a_request_that_kills_its_runtime_is_not_sent_for_ever(
    gateway, served, monkeypatch
) -> None:
    policies_set(monkeypatch, ready_s=25)

    async def die(request: web.Request) -> web.Response:
        request.transport.abort()
        return web.Response()

    gateway.answer = die
    status, _, body = await chat(served).answer()
    assert (status, code_of(body)) == (503, "session_not_ready")
    assert len(gateway.requests) == 4


async def test_no_runtime_in_time_is_503_and_has_retry_after(gateway, served) -> None:
    await update(served, state=SessionState.LOADING, address="")
    status, headers, body = await chat(served).answer()
    assert (status, headers["retry-after"], code_of(body)) == (503, "1", "session_not_ready")


async def test_a_call_wakes_a_suspended_session(served) -> None:
    await update(served, state=SessionState.SUSPENDED, address="")
    await chat(served).answer()
    await served.arefresh_from_db()
    assert served.state == "queued"


async def test_a_suspended_session_that_could_not_go_on_is_not_woken_and_says_why(served) -> None:
    await update(served, state=SessionState.SUSPENDED, address="", base_model="of-another-server")
    answer = await chat(served).answer()
    assert (answer[0], code_of(answer[2])) == (409, "conflict") and b"of-another-server" in answer[
        2
    ]
    await served.arefresh_from_db()
    assert served.state == "suspended"


@pytest.mark.parametrize(
    ("state", "status", "code"),
    [
        ("failed", 409, "session_failed"),
        ("stopped", 410, "session_ended"),
        ("cancelled", 410, "session_ended"),
    ],
)
async def test_a_session_that_is_over_shows_how(state, status, code, gateway, served) -> None:
    await update(
        served, state=state, failure={"code": "x", "cause": "it broke", "hint": "start another"}
    )
    answer = await chat(served).answer()
    assert (answer[0], code_of(answer[2])) == (status, code)
    assert not gateway.requests
    message = json.loads(answer[2])["error"]["message"]
    if state == "failed":
        assert "it broke" in message and "start another" in message
        assert answer[1]["x-should-retry"] == "false", "clients send other conflicts again"
    else:
        assert "Start a new one" in message


async def refusal(key: str | None, path: str = CHAT, **headers: str) -> tuple[int, str]:
    status, _, body = await Call(application, "POST", path, key=key, **headers).answer()
    return status, code_of(body)


async def test_a_key_that_is_no_key_is_401(gateway, served) -> None:
    good = episode_key(served.id)
    forged = episode_key(served.id, secret="another server's secret")
    payload, signature = good.split(".")
    other = episode_key("ses_other")
    # the claim of one session, the signature of another
    swapped = f"{other.split('.')[0]}.{signature}"
    for key in (
        None,
        "",
        "tml-ep-",
        "x" * 5000,
        forged,
        payload,
        good[:-2],
        good + "A",
        swapped,
        "é",
    ):
        assert await refusal(key) == (401, "invalid_api_key"), key
    assert await refusal(None, authorization=f"Basic {good}") == (401, "invalid_api_key")
    assert not gateway.requests


async def test_an_expired_key_is_410(gateway, served) -> None:
    assert await refusal(episode_key(served.id, lives_s=-1)) == (410, "episode_closed")
    assert await refusal(episode_key(served.id, lives_s=-1, secret="forged")) == (
        401,
        "invalid_api_key",
    )
    assert not gateway.requests


async def test_a_key_of_a_served_model_that_expired_is_401_and_says_where_another_is_made(
    gateway, served
) -> None:
    key = episode_key(served.id, lives_s=-1, episode_id=SERVING)
    status, _, body = await Call(application, "POST", CHAT, key=key, body=b"{}").answer()
    assert (status, code_of(body)) == (401, "invalid_api_key") and b"serving-keys" in body
    assert gateway.requests == []


async def test_a_key_of_a_session_that_is_gone_is_410(gateway, served) -> None:
    assert await refusal(episode_key("ses_deleted")) == (410, "session_ended")


@pytest.mark.parametrize(
    "path",
    [
        "/openai/",
        "/openai/v0/x",
        "/openai/v1",
        "/openai/v1/../episodes",
        "/openai/episodes",
        "/openai/tokenize/x",
    ],
)
async def test_only_the_llm_paths_are_reachable(path, gateway, served) -> None:
    assert await refusal(episode_key(served.id), path) == (404, "not_found")
    assert not gateway.requests


@pytest.mark.parametrize(
    "sent", [b"/openai%2Fv1/models", b"/%6Fpenai/v1/models", b"/openai%2fv1%2fmodels"]
)
async def test_a_prefix_that_is_written_in_another_way_leads_nowhere(sent, gateway, served) -> None:
    """What is passed on is cut off the path as it was sent, and stands behind the gateway's
    port.
    """
    call = Call(application, "GET", "/openai/v1/models", key=episode_key(served.id))
    call.scope["raw_path"] = sent
    status, _, body = await call.answer()
    assert (status, code_of(body)) == (404, "not_found")
    assert not gateway.requests


async def test_a_body_over_the_limit_is_413(gateway, served, monkeypatch) -> None:
    monkeypatch.setattr(relay_proxy, "MAX_BODY_BYTES", 100)
    status, _, body = await chat(served, b"x" * 101).answer()
    assert (status, code_of(body)) == (413, "request_too_large")
    assert not gateway.requests
    assert (await chat(served, b"x" * 100).answer())[0] == 200


async def test_many_calls_look_their_route_up_once(gateway, served, monkeypatch) -> None:
    monkeypatch.setattr("console.server.ttl_cache.FRESH_S", 60)
    looks = 0
    real = forward.route_get

    def counted(**names):
        nonlocal looks
        looks += 1
        return real(**names)

    monkeypatch.setattr(forward, "route_get", counted)
    calls = [chat(served) for _ in range(20)]
    assert {(await call.answer())[0] for call in calls} == {200}
    assert looks == 1


async def test_work_that_something_else_cancelled_is_over_and_no_error() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def waits() -> None:
        await asyncio.Event().wait()

    await relay_proxy.first_of(waits(), cancelled())


async def test_a_bug_of_ours_is_an_error_in_the_dialect(served, monkeypatch) -> None:
    async def broken(*_):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(relay_proxy, "caller_check", broken)
    status, _, body = await chat(served).answer()
    assert (status, code_of(body)) == (500, "internal")
    assert b"secret" not in body


async def test_the_key_is_taken_from_x_api_key_too(gateway, served) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=request.headers["x-api-key"])

    gateway.answer = answer
    key = episode_key(served.id)
    call = Call(application, "POST", "/openai/v1/messages", body=b"{}", x_api_key=key)
    status, _, body = await call.answer()
    assert (status, body.decode()) == (200, key)
    status, _, _ = await Call(
        application, "POST", "/openai/v1/messages", body=b"{}", x_api_key="forged"
    ).answer()
    assert status == 401


async def test_a_broken_stream_of_messages_ends_in_its_dialects_error(gateway, served) -> None:
    is_received = asyncio.Event()
    gateway.answer = broken_off_after(b"event: ping\ndata: {}\n\n", is_received)
    call = Call(application, "POST", "/openai/v1/messages", key=episode_key(served.id), body=b"{}")
    await call.start()
    assert (await call.message())["body"] == b"event: ping\ndata: {}\n\n"
    is_received.set()
    body = await call.body()
    last = body.strip().rpartition(b"\n\n")[2]
    assert last.startswith(b"event: error\ndata: ")
    assert json.loads(last.partition(b"data: ")[2])["error"]["type"] == "api_error"


@pytest.mark.parametrize("path", ["/openai", "/openai/"])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_the_base_url_itself_answers(path: str, method: str) -> None:
    """Claude Code asks for it before its first call, without a key."""
    assert (await Call(application, method, path).answer())[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages?beta=true",
        "/v1/messages/count_tokens?beta=true",
        "/v1/models?limit=1000",
        "/v1/responses",
    ],
)
async def test_what_coding_agents_ask_for_reaches_the_gateway(
    gateway: FakeGateway, served: Session, path: str
) -> None:
    status, _, body = await chat(served, path=f"/openai{path}").answer()
    assert status == 200 and json.loads(body) == {"path": path}


def test_what_is_for_this_server_or_this_connection_is_not_passed_on() -> None:
    own = ["host", "cookie", "x-relay-key", "content-length", "expect", "connection", "x-hop", "te"]
    sent = [
        (name.encode(), b"X-Hop" if name == "connection" else b"1")
        for name in [*own, "authorization", "x-agent"]
    ]
    assert list(headers_passed(sent)) == ["authorization", "x-agent"]
