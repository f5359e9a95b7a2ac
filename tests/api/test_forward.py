"""Episode calls reach the gateway of the session's runtime, and its answer comes back as it is."""

import asyncio
import json
import threading

import pytest
from aiohttp import web
from asgiref.sync import sync_to_async
from django.conf import settings

from api import gateway_proxy
from console.asgi import application
from console.audit.models import AuditRecord
from console.live.models import EventRecord
from console.server.request_threads import RESERVED_THREADS
from console.sessions.models import Session
from console.sessions.runtime.gateway_keys import relay_key
from support import factories
from support.asgi_calls import WAIT_S, Call, FakeGateway
from support.forwarding import policies_set
from support.waiting import eventually
from tinkerscript.wire.episodes import EpisodeList
from tinkerscript.wire.errors import ErrorBody
from tinkerscript.wire.sessions import SessionState

pytestmark = pytest.mark.django_db(transaction=True)
BEGUN = {"episode_id": "ep_1", "api_key": "k", "something": "that only the gateway knows"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    policies_set(monkeypatch, ready_s=0.3)


def begin(session: Session, key: str, **headers: str) -> Call:
    path = f"/v1/sessions/{session.id}/episodes"
    return Call(application, "POST", path, key=key, body=b'{"task": "t"}', **headers)


async def update(session: Session, **fields: object) -> None:
    await Session.objects.filter(id=session.id).aupdate(**fields)


def code_of(body: bytes) -> str:
    return ErrorBody.model_validate_json(body).error.code


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Of Django's lines about requests."""
    return [record.levelname for record in caplog.records if record.name == "django.request"]


async def test_the_gateways_answer_is_passed_on_unchanged(
    gateway: FakeGateway, served: Session, api_key: str
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(
            BEGUN, status=201, headers={"X-Internal": "1", "Set-Cookie": "a=b"}
        )

    gateway.answer = answer
    status, headers, body = await begin(
        served, api_key, idempotency_key="k1", x_request_id="mine"
    ).answer()
    assert (status, json.loads(body)) == (201, BEGUN)
    assert "x-internal" not in headers
    assert "set-cookie" not in headers
    (request, sent) = gateway.requests[0]
    assert (request.method, request.path) == ("POST", "/episodes")
    assert json.loads(sent) == {"task": "t", "eval": False, "timeout_s": None, "supersedes": None}
    assert request.headers["X-Relay-Key"] == relay_key(
        session_id=served.id, lease_sha256=served.lease_sha256
    )
    assert request.headers["Idempotency-Key"] == "k1"
    assert request.headers["X-Request-Id"] == "mine"
    assert "Authorization" not in request.headers  # the user's key stays here


async def test_requests_that_the_gateway_holds_hold_no_thread_and_few_connections(
    gateway: FakeGateway, served: Session, api_key: str, opened: list[object]
) -> None:
    """A gateway holds a begin for up to 20 s, and PostgreSQL has a hundred connections for all
    processes.
    """
    arrived, release, count = asyncio.Semaphore(0), asyncio.Event(), RESERVED_THREADS * 2

    async def answer(request: web.Request) -> web.Response:
        arrived.release()
        await release.wait()
        return web.json_response(BEGUN, status=201)

    gateway.answer = answer
    calls = [begin(served, api_key) for _ in range(count)]
    async with asyncio.timeout(WAIT_S):
        for _ in range(count):
            await arrived.acquire()
    status, _, _ = await Call(application, "GET", "/v1/sessions", key=api_key).answer()
    assert status == 200, "while they all wait"
    release.set()
    assert {(await call.answer())[0] for call in calls} == {201}
    assert len(opened) <= RESERVED_THREADS + 2


async def test_every_episode_route_has_its_path_at_the_gateway(gateway, served, api_key) -> None:
    root = f"/v1/sessions/{served.id}"
    calls = [
        ("GET", "/episodes?limit=2&cursor=c%20d", "", "/episodes?limit=2&cursor=c+d"),
        ("GET", "/episodes/ep_1", "", "/episodes/ep_1"),
        (
            "GET",
            "/episodes/ep_1/calls?limit=2&cursor=4",
            "",
            "/episodes/ep_1/calls?limit=2&cursor=4",
        ),
        ("POST", "/episodes/ep_1/end", '{"output": {"reward": 1}}', "/episodes/ep_1/end"),
        ("POST", "/episodes/ep_1/abandon", "{}", "/episodes/ep_1/abandon"),
        ("POST", "/episodes/ep_1/heartbeat", "", "/episodes/ep_1/heartbeat"),
        ("POST", "/heartbeats", '{"episode_ids": ["ep_1"]}', "/heartbeats"),
        ("GET", "/accounting", "", "/accounting"),
    ]
    for method, path, body, expected in calls:
        status, _, answer = await Call(
            application, method, root + path, key=api_key, body=body.encode()
        ).answer()
        assert (status, json.loads(answer)) == (200, {"path": expected})


@pytest.mark.parametrize("episode", ["..", "a/b", "a%2Fb", "%2e%2e", "a%3Fx", "é", "a" * 65])
async def test_an_id_cannot_lead_elsewhere_in_the_gateway(
    episode, gateway, served, api_key
) -> None:
    status, _, _ = await Call(
        application, "GET", f"/v1/sessions/{served.id}/episodes/{episode}", key=api_key
    ).answer()
    assert status == 404
    assert not gateway.requests


async def test_a_refusal_of_the_gateway_keeps_its_status_and_body(
    gateway, served, api_key, caplog
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(
            {"error": {"code": "session_not_ready"}}, status=503, headers={"Retry-After": "0"}
        )

    gateway.answer = answer
    status, headers, body = await begin(served, api_key).answer()
    assert (status, headers["retry-after"]) == (503, "0")
    assert json.loads(body) == {"error": {"code": "session_not_ready"}}
    assert levels(caplog) == ["INFO"]


async def test_a_gateway_that_fails_is_an_error_in_the_log(
    gateway, served, api_key, caplog
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"error": {"code": "internal"}}, status=503)

    gateway.answer = answer
    assert (await begin(served, api_key).answer())[0] == 503
    assert levels(caplog) == ["ERROR"]


async def test_a_body_is_checked_before_the_gateway_sees_it(gateway, served, api_key) -> None:
    path = f"/v1/sessions/{served.id}/episodes"
    status, _, _ = await Call(application, "POST", path, key=api_key, body=b'{"tusk": 1}').answer()
    assert status == 400
    assert not gateway.requests


async def test_an_outsider_never_reaches_the_gateway(gateway, served, outsider_key) -> None:
    status, _, _ = await begin(served, outsider_key).answer()
    assert status == 404
    assert not gateway.requests


async def test_a_session_on_its_way_up_is_waited_for(gateway, served, api_key, monkeypatch) -> None:
    policies_set(monkeypatch, ready_s=25)
    await update(served, state=SessionState.LOADING, address="")
    looks, session_get = [], gateway_proxy.session_get
    monkeypatch.setattr(
        gateway_proxy, "session_get", lambda **names: looks.append(names) or session_get(**names)
    )
    call = begin(served, api_key)
    await eventually(lambda: looks)
    assert not call.task.done()
    await update(served, state=SessionState.READY, address=gateway.address)
    assert (await call.answer())[0] == 200


async def test_a_wait_that_is_too_long_ends_with_the_position_in_the_queue(
    served, api_key, caplog
) -> None:
    await update(served, state=SessionState.QUEUED, address="")
    status, headers, body = await begin(served, api_key).answer()
    assert (status, headers["retry-after"], code_of(body)) == (503, "1", "session_not_ready")
    details = ErrorBody.model_validate_json(body).error.details
    assert details == {"state": "queued", "queue_position": 1}
    assert levels(caplog) == ["INFO"], "polling a session that is not ready is no error"


async def test_a_failed_session_gives_the_reason(served, api_key) -> None:
    failure = {"code": "engine_dead", "cause": "out of memory", "hint": "Use a smaller model."}
    await update(served, state=SessionState.FAILED, failure=failure)
    status, _, body = await begin(served, api_key).answer()
    assert (status, code_of(body)) == (409, "session_failed")
    assert ErrorBody.model_validate_json(body).error.details == failure


async def test_an_ended_session_takes_no_episode(served, api_key) -> None:
    await update(served, state=SessionState.STOPPED)
    status, _, body = await begin(served, api_key).answer()
    assert (status, code_of(body)) == (409, "conflict")


async def test_a_begin_wakes_a_suspended_session_and_a_look_does_not(served, api_key) -> None:
    await update(served, state=SessionState.SUSPENDED, address="")
    status, _, _ = await Call(
        application, "GET", f"/v1/sessions/{served.id}/accounting", key=api_key
    ).answer()
    await served.arefresh_from_db()
    assert (status, served.state) == (409, "suspended")
    assert (await begin(served, api_key).answer())[0] == 503
    await served.arefresh_from_db()
    assert served.state == "queued"


async def test_a_gateway_that_died_is_looked_for_at_its_new_address(
    gateway, served, api_key, monkeypatch
) -> None:
    policies_set(monkeypatch, ready_s=25)
    received = asyncio.Event()

    async def die(request: web.Request) -> web.Response:
        received.set()
        request.transport.abort()
        return web.Response()

    gateway.answer = die
    call = begin(served, api_key, idempotency_key="k1")
    await received.wait()
    await gateway.stop()
    restarted = FakeGateway()
    await restarted.start()
    try:
        await update(served, address=restarted.address)
        assert (await call.answer())[0] == 200
        assert restarted.requests[0][0].headers["Idempotency-Key"] == "k1"
    finally:
        await restarted.stop()


async def test_a_hanging_gateway_costs_a_bounded_wait(
    gateway, served, api_key, monkeypatch
) -> None:
    policies_set(monkeypatch, answer_s=1.0)

    async def hang(request: web.Request) -> web.Response:
        await asyncio.Event().wait()

    gateway.answer = hang
    status, _, body = await begin(served, api_key).answer()
    assert (status, code_of(body)) == (503, "session_not_ready")
    error = ErrorBody.model_validate_json(body).error
    assert "not answered within 1 s" in error.message and "may still do" in error.hint
    await eventually(lambda: len(gateway.requests) > 0)


async def test_accounts_and_keys_of_a_member_work_the_same(
    gateway, served, project, member
) -> None:
    secret = await sync_to_async(factories.key_make)(project, member)
    assert (await begin(served, secret).answer())[0] == 200
    assert settings.SECRET_KEY not in str(gateway.requests[0][0].headers)


async def test_changed_rewards_are_in_the_sessions_record_once(
    gateway: FakeGateway, served: Session, api_key, project, member
) -> None:
    change = {"seq": 7, "episode_id": "ep_1", "was": 0.0, "reward": 1.0, "at": 5.0}
    done = {
        "changes": [change],
        "unchanged": ["ep_2"],
        "refused": {"ep_3": "it is open: it is ended with its reward"},
    }

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(done)

    gateway.answer = answer
    body = b'{"rewards": {"ep_1": 1.0, "ep_2": 1.0, "ep_3": 1.0}}'
    for _ in range(2):
        status, _, told = await Call(
            application, "POST", f"/v1/sessions/{served.id}/rescore", key=api_key, body=body
        ).answer()
        assert (status, json.loads(told)) == (200, done)
    assert [request.path for request, _ in gateway.requests] == ["/rescore", "/rescore"]
    (entry,) = [
        e
        async for e in EventRecord.objects.filter(
            session_id=served.id, data__name="episodes_rescored"
        )
    ]
    assert entry.data["rewards"] == {"ep_1": {"was": 0.0, "reward": 1.0}}
    assert entry.data["member_id"].startswith("mem_") and entry.data["key_id"].startswith("key_")
    # Of another who asks for the same later, the runtime returns the earlier change again, beside
    # the new one.
    done["changes"].append({"seq": 8, "episode_id": "ep_4", "was": 0.5, "reward": 2.0, "at": 6.0})
    other = await sync_to_async(factories.key_make)(project, member)
    await Call(
        application, "POST", f"/v1/sessions/{served.id}/rescore", key=other, body=body
    ).answer()
    first, second = [
        e
        async for e in EventRecord.objects.filter(
            session_id=served.id, data__name="episodes_rescored"
        ).order_by("id")
    ]
    assert first.data == entry.data and second.data["rewards"] == {
        "ep_4": {"was": 0.5, "reward": 2.0}
    }
    records = [json.loads(e.content) async for e in AuditRecord.objects.order_by("id")]
    audited = [e["details"] for e in records if e["action"] == "episodes_rescore"]
    assert audited == [{"episodes": 1}, {"episodes": 1}], "of each change once, too"
    assert (
        second.data["member_id"] != first.data["member_id"]
        and second.data["key_id"] != first.data["key_id"]
    )


async def test_changed_options_are_in_the_record_and_in_the_audit_log_once(
    gateway: FakeGateway, served: Session, api_key, project, member
) -> None:
    change = {"seq": 3, "first_step": 8, "at": 5.0}
    change |= {"options": {"learning_rate": 1e-6}, "was": {"learning_rate": 1e-5}}

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(change)

    gateway.answer = answer
    path = f"/v1/sessions/{served.id}/config"
    for _ in range(2):
        call = Call(application, "PATCH", path, key=api_key, body=b'{"learning_rate": 1e-6}')
        status, _, told = await call.answer()
        assert (status, json.loads(told)) == (200, change)
    request, sent = gateway.requests[0]
    assert (request.method, request.path, json.loads(sent)) == (
        "PATCH",
        "/config",
        {"learning_rate": 1e-6},
    )
    (entry,) = [e async for e in EventRecord.objects.filter(data__name="config_changed")]
    assert entry.data["step"] == 8 and entry.data["options"] == {"learning_rate": 1e-6}
    assert entry.data["member_id"].startswith("mem_") and entry.data["key_id"].startswith("key_")
    log = [json.loads(e.content) async for e in AuditRecord.objects.filter(project_id=project.id)]
    (audited,) = [e for e in log if e["action"] == "session_config_update"]
    assert audited["target"] == {"session_id": served.id}
    assert audited["details"]["first_step"] == 8 and audited["key_id"] == entry.data["key_id"]
    change |= {"seq": 0, "options": {}, "was": {}}
    await Call(application, "PATCH", path, key=api_key, body=b'{"learning_rate": 1e-6}').answer()
    assert await EventRecord.objects.filter(data__name="config_changed").acount() == 1


async def test_a_page_is_written_beside_the_loop_that_serves_the_others(
    served: Session, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, threads = EpisodeList.model_dump_json, []

    def seen(page: EpisodeList) -> str:
        threads.append(threading.get_ident())
        return write(page)

    monkeypatch.setattr(EpisodeList, "model_dump_json", seen)
    path = f"/v1/sessions/{served.id}/episodes?sort=newest"
    status, headers, body = await Call(application, "GET", path, key=api_key).answer()
    assert (status, json.loads(body)["items"]) == (200, [])
    assert headers["content-type"] == "application/json"
    assert len(threads) == 1 and threading.get_ident() not in threads


async def test_options_that_stay_are_refused_before_the_runtime_is_asked(
    gateway: FakeGateway, served: Session, api_key
) -> None:
    path = f"/v1/sessions/{served.id}/config"
    for body, words in (
        (b'{"grpo_n": 4}', "learning_rate and kl_coef can"),
        (b'{"learning_rate": 1}', "learning_rate"),
        (b"{}", "names nothing to change"),
    ):
        status, _, told = await Call(application, "PATCH", path, key=api_key, body=body).answer()
        assert status == 400 and words in ErrorBody.model_validate_json(told).error.message
    await update(served, kind="tinker")
    status, _, told = await Call(
        application, "PATCH", path, key=api_key, body=b'{"kl_coef": 0.1}'
    ).answer()
    error = ErrorBody.model_validate_json(told).error
    assert (status, error.code) == (409, "conflict") and "AdamParams" in error.hint
    assert gateway.requests == []
