"""Retries under one key, bounds on every wait, typed errors for every kind of answer."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from pydantic import BaseModel
from sdk.http_parts import Answer, error
from sdk.rest_server import API_KEY

from support.waiting import wait_until
from tinkerscript import (
    AuthenticationError,
    ClientClosed,
    InternalError,
    InvalidRequest,
    NotFound,
    RateLimited,
    ServerUnreachable,
    SessionNotReady,
    UnexpectedAnswer,
)
from tinkerscript.connection import retries
from tinkerscript.connection.proxies import is_loopback
from tinkerscript.connection.transport import Transport
from tinkerscript.wire.episodes import EpisodeBegin, EpisodeBegun
from tinkerscript.wire.sessions import SessionCreate, SessionList, SessionView


@pytest.fixture
def transport(server):
    transport = Transport(server.url, API_KEY, retry_timeout_s=10)
    yield transport
    transport.close()


def create(transport, **options):
    return transport.request(
        "POST",
        "/v1/sessions",
        body=SessionCreate(base_model="SmolLM2"),
        response=SessionView,
        **options,
    )


def test_lost_answer_is_asked_for_again_under_the_same_key_and_done_once(server, transport):
    server.fail("POST /v1/sessions", times=2, after=True)
    create(transport)
    keys = [request.key for request in server.requests]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert len(server.sessions) == 1


def test_a_post_that_its_caller_repeats_under_one_key_is_done_once(server, transport):
    first, again = (create(transport, idempotent_key="of-one-begin") for _ in range(2))
    assert first.id == again.id and len(server.sessions) == 1


def test_each_post_has_its_own_key_and_a_given_key_is_used(server, transport):
    create(transport)
    create(transport)
    create(transport, idempotent_key="mine")
    keys = [request.key for request in server.requests]
    assert len(set(keys)) == 3
    assert keys[-1] == "mine"


@pytest.mark.parametrize("status", [408, 425, 429, 502, 503, 504, 520, 524, 529])
def test_busy_responses_are_retried(server, transport, status):
    server.fail("POST /v1/sessions", times=2, answer=Answer(status, b"<html>bad gateway</html>"))
    create(transport)
    assert len({request.key for request in server.requests}) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 500, 501])
def test_other_errors_are_not_retried(server, transport, status):
    server.fail("POST /v1/sessions", times=5, answer=Answer(status))
    with pytest.raises(Exception, match=str(status)):
        create(transport)
    assert len(server.requests) == 1


def test_retry_after_is_honoured(server, transport, tries):
    busy = error(429, "rate_limited")
    busy.headers["Retry-After"] = "0.15"  # longer than any pause of its own here
    server.fail("GET /v1/sessions", answer=busy)
    transport.request("GET", "/v1/sessions", response=SessionList)
    assert tries == [0.15]


def test_retry_after_beyond_the_bound_raises_at_once_with_what_was_asked(server, transport, tries):
    busy = error(429, "rate_limited")
    busy.headers["Retry-After"] = "50"
    server.fail("GET /v1/sessions", answer=busy)
    with pytest.raises(RateLimited) as caught:
        transport.request("GET", "/v1/sessions", response=SessionList)
    assert caught.value.retry_after_s == 50
    assert tries == []


def test_session_not_ready_is_left_to_the_caller(server, transport):
    server.fail("GET /v1/sessions", answer=error(503, "session_not_ready"))
    with pytest.raises(SessionNotReady):
        transport.request("GET", "/v1/sessions", response=SessionList)


@pytest.fixture
def tries(transport, monkeypatch):
    """The pauses after failed tries, in seconds."""
    pauses, sleep = [], transport.sleep
    monkeypatch.setattr(
        transport, "sleep", lambda seconds: pauses.append(seconds) or sleep(seconds)
    )
    return pauses


def test_server_away_then_back_is_not_noticed(server, transport, tries):
    create(transport)
    server.stop()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(create, transport)
        wait_until(lambda: tries)
        assert not waiting.done()
        server.start()
        waiting.result(25)
    assert len(server.sessions) == 2


def test_restart_in_the_middle_of_a_loop_loses_no_episode(server, connect):
    session = connect()
    restarted = threading.Event()

    def restart():
        for _ in range(3):
            count = len(server.ended)
            wait_until(lambda count=count: len(server.ended) >= count + 5)
            server.stop()
            time.sleep(0.02)  # for so long it is away
            server.start()
        restarted.set()

    def rollout(number):
        session.begin_episode(task=str(number))
        return session.end_episode(float(number)).reward

    restarting = threading.Thread(target=restart)
    restarting.start()
    rewards, number = [], 0
    with ThreadPoolExecutor(4) as pool:
        while not restarted.is_set():
            rewards += pool.map(rollout, range(number, number + 8))
            number += 8
    restarting.join()
    assert rewards == [float(n) for n in range(number)]
    assert sorted(int(e.task) for e in server.episodes.values()) == list(range(number))
    assert {e.state.value for e in server.episodes.values()} == {"completed"}


def test_server_that_stays_away_is_a_typed_error_within_the_bound(server, transport, tries):
    server.stop()
    with pytest.raises(ServerUnreachable) as caught:
        create(transport, retry_timeout_s=0.2)
    assert sum(tries) < 0.2
    assert server.url in str(caught.value)
    assert caught.value.hint


def test_no_retry_when_none_is_allowed(server, transport):
    server.fail("POST /v1/sessions", times=5)
    with pytest.raises(ServerUnreachable):
        create(transport, retry_timeout_s=0)
    assert len(server.requests) == 1


def test_silent_server_is_a_timeout_not_a_hang(server, transport):
    with pytest.raises(ServerUnreachable, match="Timeout"):
        transport.request(
            "GET",
            "/v1/sessions/x/events",
            params={"wait_s": 5},
            response=SessionList,
            timeout_s=0.1,
            retry_timeout_s=0,
        )


def test_close_wakes_a_retry_that_waits(server, transport, tries):
    server.stop()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(create, transport)
        wait_until(lambda: tries)
        transport.close()
        with pytest.raises(ClientClosed):
            waiting.result(25)
    with pytest.raises(ClientClosed):
        create(transport)


def test_a_connection_that_is_made_while_the_client_closes_is_closed_too(server):
    sent, closed, replies = threading.Event(), threading.Event(), []
    hooks = {
        "request": [lambda request: (sent.set(), closed.wait(25))],
        "response": [replies.append],
    }
    transport = Transport(server.url, API_KEY, http=httpx.Client(event_hooks=hooks))
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(transport.request, "GET", "/v1/sessions")
        sent.wait(25)
        transport.close()
        closed.set()
        under_way.result(25)
    assert replies[0].extensions["network_stream"].get_extra_info("socket").fileno() == -1


@pytest.mark.parametrize(
    "body",
    [b"<html>no json</html>", b"", b"[1]", b'{"error": "text"}', b"\xff\xfe", b'{"error": {}}'],
)
@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, AuthenticationError), (404, NotFound), (418, InvalidRequest), (500, InternalError)],
)
def test_error_body_of_another_shape_still_gives_a_typed_error(
    server, transport, body, status, kind
):
    server.fail("POST /v1/sessions", answer=Answer(status, body, {"X-Request-Id": "req_header"}))
    with pytest.raises(kind) as caught:
        create(transport)
    assert (caught.value.status, caught.value.request_id) == (status, "req_header")
    assert "POST /v1/sessions" in str(caught.value)


def test_code_of_a_newer_server_is_kept(server, transport):
    server.fail("POST /v1/sessions", answer=error(409, "brand_new", "something new", "do this"))
    with pytest.raises(Exception, match="something new. Hint: do this") as caught:
        create(transport)
    assert caught.value.code == "brand_new"


@pytest.mark.parametrize("body", [b"<html>console</html>", b"{}", b"", b'{"items": 3}'])
def test_answer_of_another_shape_is_a_typed_error(server, transport, body):
    server.fail("GET /v1/sessions", answer=Answer(200, body))
    with pytest.raises(UnexpectedAnswer) as caught:
        transport.request("GET", "/v1/sessions", response=SessionList)
    assert "base URL" in caught.value.hint


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_is_not_compressed_as_it_is_announced_is_a_typed_error(
    server, transport, encoding
):
    answer = Answer(200, b"plain words", {"Content-Encoding": encoding})
    server.fail("GET /v1/sessions", 2, answer=answer)
    with pytest.raises(UnexpectedAnswer, match="GET /v1/sessions returned a body that cannot"):
        transport.request("GET", "/v1/sessions", response=SessionList)
    with (
        pytest.raises(UnexpectedAnswer, match="cannot be read"),
        transport.stream("/v1/sessions") as pieces,
    ):
        list(pieces)


def test_redirect_is_refused_and_named(server, transport):
    server.fail(
        "GET /v1/sessions", answer=Answer(301, b"", {"Location": "https://elsewhere.example/v1"})
    )
    with pytest.raises(UnexpectedAnswer, match=r"https://elsewhere\.example"):
        transport.request("GET", "/v1/sessions", response=SessionList)


def test_body_that_is_no_json_is_refused_before_any_traffic(server, transport):
    class Anything(BaseModel):
        value: object

    with pytest.raises(InvalidRequest):
        transport.request("POST", "/v1/sessions", body=Anything(value=object()))
    assert server.requests == []


def test_answer_without_body_is_accepted_when_none_is_expected(server, transport):
    server.fail("POST /v1/runtime/report", answer=Answer(204))
    assert transport.request("POST", "/v1/runtime/report") is None


def test_sixteen_threads_share_one_transport(server, transport):
    view = create(transport)

    def begin(_):
        path = f"/v1/sessions/{view.id}/episodes"
        return transport.request(
            "POST", path, body=EpisodeBegin(), response=EpisodeBegun
        ).episode_id

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(begin, range(160)))) == 160


def test_given_http_client_is_used(server):
    http = httpx.Client(headers={"X-Mine": "1"})
    transport = Transport(server.url + "/", API_KEY, http=http)
    transport.request("GET", "/v1/sessions", response=SessionList)
    assert server.requests[0].headers["x-mine"] == "1"
    transport.close()


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.8.9.1", True),
        ("http://localhost:1", True),
        ("http://a.localhost", True),
        ("http://[::1]:8000", True),
        ("https://example.com", False),
        ("http://10.0.0.1", False),
        ("http://localhost.example.com", False),
    ],
)
def test_loopback_is_recognized(url, loopback):
    assert is_loopback(url) is loopback


def test_each_try_waits_twice_as_long_as_the_one_before_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(retries.random, "uniform", lambda low, high: high)
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.2)
    monkeypatch.setattr(retries, "MAX_BACKOFF_S", 10.0)
    assert [retries.backoff_s(attempt) for attempt in range(8)] == [
        0.2,
        0.4,
        0.8,
        1.6,
        3.2,
        6.4,
        10.0,
        10.0,
    ]
    assert retries.delay_s(0, 3.0) == 3.0 and retries.delay_s(0, 1e9) == retries.MAX_RETRY_AFTER_S
    assert retries.delay_s(5, 0.0) > 0, "no busy loop"
