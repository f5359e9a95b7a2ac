"""The live websocket: who may watch, from where, and that a broken connection costs nothing."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.sessions.models import Session as DjangoSession
from django.urls import path
from django.utils import timezone

from console.asgi import application
from console.live import consumer
from console.live.consumer import LiveConsumer
from console.live.models import EventRecord
from console.live.services import event_record
from console.sessions import live_permission
from console.sessions.models import Session
from console.users.models import ApiKey, Membership, Project, User
from support import factories
from support.signing_in import cookie_of
from support.waiting import eventually
from tinkerscript.wire.account import Scope
from tinkerscript.wire.events import EventKind, EventPage

pytestmark = pytest.mark.django_db(transaction=True)
HOST = (b"host", b"testserver")


@pytest.fixture
def session(project: Project) -> Session:
    return factories.session_make(project)


def socket(
    watched: str,
    *,
    key: str | None = None,
    query: str = "",
    headers: tuple = (),
    what: str = "sessions",
) -> WebsocketCommunicator:
    sent = [HOST, *headers]
    if key is not None:
        sent.append((b"authorization", f"Bearer {key}".encode()))
    return WebsocketCommunicator(application, f"/ws/v1/{what}/{watched}{query}", headers=sent)


async def page(client: WebsocketCommunicator) -> EventPage:
    return EventPage.model_validate_json(await client.receive_from(timeout=25))


async def close_code(client: WebsocketCommunicator) -> int:
    connected, _ = await client.connect(timeout=25)
    assert connected  # a close code is visible to a page only after the handshake
    message = await client.receive_output(timeout=25)
    assert message["type"] == "websocket.close"
    return message["code"]


async def test_the_backlog_then_live(session, api_key) -> None:
    client = socket(session.id, key=api_key)
    await client.connect(timeout=25)
    backlog = await page(client)
    assert [event.data["to"] for event in backlog.items] == ["queued"]
    await sync_to_async(event_record)(
        session_id=session.id, kind=EventKind.METRIC, data={"step": 1}
    )
    live = await page(client)
    assert [event.data for event in live.items] == [{"step": 1}]
    assert live.next_cursor == live.items[-1].cursor > backlog.next_cursor
    await client.disconnect(timeout=25)


async def test_a_quiet_channel_says_that_it_is_there(session, api_key, monkeypatch) -> None:
    monkeypatch.setattr(consumer, "PING_S", 0.01)
    monkeypatch.setattr(consumer, "RECHECK_S", 0.01)
    client = socket(session.id, key=api_key)
    await client.connect(timeout=25)
    backlog = await page(client)
    for _ in range(2):
        assert await page(client) == EventPage(items=[], next_cursor=backlog.next_cursor)
    await client.disconnect(timeout=25)


def revoke(session: Session, user: User) -> None:
    ApiKey.objects.update(revoked_at=timezone.now())


def remove(session: Session, user: User) -> None:
    Membership.objects.filter(user=user, project=session.project).delete()


def sign_out(session: Session, user: User) -> None:
    DjangoSession.objects.all().delete()


def change_password(session: Session, user: User) -> None:
    user.set_password("another good one")
    user.save()


def expire(session: Session, user: User) -> None:
    DjangoSession.objects.update(expire_date=timezone.now())


def deactivate(session: Session, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


@pytest.mark.parametrize(
    ("by_key", "end", "code"),
    [
        (True, revoke, 4401), (True, remove, 4401), (True, deactivate, 4401), (False, remove, 4404),
        (False, sign_out, 4401), (False, expire, 4401), (False, change_password, 4401), (False, deactivate, 4401),
    ],
)  # fmt: skip
@pytest.mark.parametrize("what", ["sessions", "projects"])
async def test_who_may_no_longer_watch_gets_no_more(
    what, by_key, end, code, session, member
) -> None:
    watched = session.id if what == "sessions" else session.project_id
    if by_key:
        client = socket(
            watched, what=what, key=await sync_to_async(factories.key_make)(session.project, member)
        )
    else:
        headers = (b"cookie", await cookie_of(member)), (b"origin", b"http://testserver")
        client = socket(watched, what=what, headers=headers)
    await client.connect(timeout=25)
    await client.receive_from(timeout=25)
    if what == "projects":
        await client.receive_from(timeout=25)  # what is queued
    await sync_to_async(end)(session, member)
    # nothing is written meanwhile: a quiet socket ends as well
    message = await client.receive_output(timeout=25)
    assert (message["type"], message.get("code")) == ("websocket.close", code)


async def test_a_quiet_watcher_is_checked_more_often_than_once_a_second(
    session, monkeypatch
) -> None:
    assert consumer.RECHECK_S + live_permission.FRESH_S < 1.0, "what was allowed is remembered"
    monkeypatch.setattr(consumer, "RECHECK_S", 0.001)
    checked: list[str] = []

    async def allow(scope: Mapping[str, Any], session_id: str) -> None:
        checked.append(session_id)

    watch: Any = LiveConsumer.as_asgi(allow=allow)
    channels = URLRouter([path("ws/v1/sessions/<str:session_id>", watch)])
    client = WebsocketCommunicator(channels, f"/ws/v1/sessions/{session.id}")
    await client.connect(timeout=25)
    await page(client)
    # as often as it says: by a pause of its own it would take a minute
    await eventually(lambda: len(checked) > 100)
    await client.disconnect(timeout=25)
    assert set(checked) == {session.id}


async def test_a_client_resumes_after_the_last_entry_that_it_saw(session, api_key) -> None:
    events = [
        await sync_to_async(event_record)(
            session_id=session.id, kind=EventKind.LOG, data={"line": str(number)}
        )
        for number in range(5)
    ]
    client = socket(session.id, key=api_key, query=f"?after={events[2].id}")
    await client.connect(timeout=25)
    assert [event.data["line"] for event in (await page(client)).items] == ["3", "4"]
    assert await client.receive_nothing()
    await client.disconnect(timeout=25)


async def test_a_client_gets_only_the_kinds_that_it_asks_for_and_its_cursor_passes_the_others(
    session, api_key
) -> None:
    kinds = [EventKind.METRIC, EventKind.LOG, EventKind.LOG]
    events = [
        await sync_to_async(event_record)(session_id=session.id, kind=kind, data={})
        for kind in kinds
    ]
    client = socket(session.id, key=api_key, query="?kinds=metric,event")
    await client.connect(timeout=25)
    first = await page(client)
    assert [event.kind for event in first.items] == [
        EventKind.METRIC
    ] and first.next_cursor == events[2].id
    await sync_to_async(event_record)(
        session_id=session.id, kind=EventKind.LOG, data={"line": "not this"}
    )
    assert await client.receive_nothing()
    last = await sync_to_async(event_record)(
        session_id=session.id, kind=EventKind.EVENT, data={"name": "this"}
    )
    assert [event.cursor for event in (await page(client)).items] == [last.id]
    await client.disconnect(timeout=25)


async def test_a_long_backlog_comes_whole_and_in_order(session, api_key) -> None:
    rows = [
        EventRecord(session_id=session.id, kind="log", data={"line": str(number)})
        for number in range(950)
    ]
    await EventRecord.objects.abulk_create(rows)
    client = socket(session.id, key=api_key)
    await client.connect(timeout=25)
    cursors = []
    while len(cursors) < 951:
        cursors += [event.cursor for event in (await page(client)).items]
    assert len(set(cursors)) == 951
    assert cursors == sorted(cursors)
    await client.disconnect(timeout=25)


async def test_owner_and_member_watch_and_an_outsider_finds_nothing(
    session, project, api_key, member, outsider_key
) -> None:
    for key in (api_key, await sync_to_async(factories.key_make)(project, member)):
        client = socket(session.id, key=key)
        await client.connect(timeout=25)
        assert (await page(client)).items
        await client.disconnect(timeout=25)
    assert await close_code(socket(session.id, key=outsider_key)) == 4404
    assert await close_code(socket("ses_none", key=api_key)) == 4404


async def test_no_key_or_a_wrong_one_is_4401(session) -> None:
    assert await close_code(socket(session.id)) == 4401
    assert await close_code(socket(session.id, key="wrong")) == 4401
    assert await close_code(socket(session.id, headers=((b"authorization", b"Basic x"),))) == 4401


async def test_a_key_without_the_scope_is_4403(session, project, alice) -> None:
    key = await sync_to_async(factories.key_make)(project, alice, [Scope.EPISODES])
    assert await close_code(socket(session.id, key=key)) == 4403


async def test_a_signed_in_person_watches_from_our_own_pages_only(session, alice, bob) -> None:
    cookie = (b"cookie", await cookie_of(alice))
    for origin in (b"http://testserver", settings.PUBLIC_URL.encode()):
        client = socket(session.id, headers=(cookie, (b"origin", origin)))
        await client.connect(timeout=25)
        assert (await page(client)).items
        await client.disconnect(timeout=25)
    for headers in (
        (cookie,),
        (cookie, (b"origin", b"https://evil.example")),
        (cookie, (b"origin", b"null")),
    ):
        assert await close_code(socket(session.id, headers=headers)) == 4403
    other = (b"cookie", await cookie_of(bob))
    assert (
        await close_code(socket(session.id, headers=(other, (b"origin", b"http://testserver"))))
        == 4404
    )


@pytest.mark.parametrize(
    "query",
    ["?after=x", "?after=-1", "?after=", "?after=" + "9" * 19, "?from=1", "?kinds=all", "?kinds="],
)
async def test_a_bad_query_is_4400(query, session, api_key) -> None:
    assert await close_code(socket(session.id, key=api_key, query=query)) == 4400


async def test_a_refusal_of_a_name_in_other_letters_fits_into_a_close_frame(session) -> None:
    client = socket(session.id, query="?" + "%F0%9F%98%80" * 100)
    await client.connect(timeout=25)
    closed = await client.receive_output(timeout=25)
    assert closed["code"] == 4400
    reason = closed["reason"]
    assert reason.startswith("Unknown parameter: \U0001f600")
    assert len(reason.encode()) <= 123  # what is longer no server sends: RFC 6455, 5.5


async def test_what_a_client_sends_is_dropped(session, api_key) -> None:
    client = socket(session.id, key=api_key)
    await client.connect(timeout=25)
    await page(client)
    await client.send_to(text_data=json.dumps({"type": "anything"}))
    await client.send_to(bytes_data=b"\x00")
    await sync_to_async(event_record)(
        session_id=session.id, kind=EventKind.LOG, data={"line": "still here"}
    )
    assert (await page(client)).items[0].data == {"line": "still here"}
    await client.disconnect(timeout=25)


async def test_a_channel_that_breaks_is_closed(session, api_key, monkeypatch) -> None:
    def broken(**_):
        raise RuntimeError("the database is away")

    monkeypatch.setattr("console.live.hub.event_cursor_latest", broken)
    assert await close_code(socket(session.id, key=api_key)) == 1011


async def test_there_is_no_other_channel() -> None:
    client = WebsocketCommunicator(application, "/ws/v1/nothing", headers=[HOST])
    assert await client.connect(timeout=25) == (False, 4404)


async def test_the_key_of_a_sign_ins_row_is_no_cookie(session, alice) -> None:
    await cookie_of(alice)
    row = await DjangoSession.objects.aget()
    cookie = f"{settings.SESSION_COOKIE_NAME}={row.session_key}".encode()
    assert (
        await close_code(
            socket(session.id, headers=((b"cookie", cookie), (b"origin", b"http://testserver")))
        )
        == 4401
    )


async def test_one_key_has_so_many_watchers_and_others_have_theirs(
    session, api_key, outsider_key, monkeypatch
) -> None:
    counts = consumer.Watchers()
    monkeypatch.setattr(consumer, "watchers", counts)
    monkeypatch.setattr(consumer, "MAX_PER_CREDENTIAL", 3)
    open_ = [socket(session.id, key=api_key) for _ in range(3)]
    for client in open_:
        await client.connect(timeout=25)
        await page(client)
    assert await close_code(socket(session.id, key=api_key)) == 4429
    assert await close_code(socket(session.id, key=outsider_key)) == 4404, (
        "not one too many, but not theirs"
    )
    await open_.pop().disconnect(timeout=25)
    again = socket(session.id, key=api_key)
    await again.connect(timeout=25)
    await page(again)
    monkeypatch.setattr(consumer, "MAX_WATCHERS", 3)
    assert await close_code(socket(session.id, key=outsider_key)) == 4429
    for client in (*open_, again):
        await client.disconnect(timeout=25)
    assert counts.by_credential.total() == 0
