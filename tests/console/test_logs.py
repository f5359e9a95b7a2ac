"""A line of the log says which request and which session it is about, without passing both each
time.
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextvars import Context

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator

from api.relay import proxy as relay_proxy
from console.asgi import application
from console.server.logs import JsonFormatter, logs_bind
from console.users.models import Project
from support import factories
from support.asgi_calls import Call, episode_key

log = logging.getLogger("tests.logs")


class Lines(logging.Handler):
    """Formats where the record is made, as the server's handler does."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict] = []
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def lines() -> Iterator[list[dict]]:
    handler = Lines()
    logging.getLogger().addHandler(handler)
    yield handler.lines
    logging.getLogger().removeHandler(handler)


async def test_what_a_task_binds_is_in_its_lines_and_in_those_of_its_threads_alone(lines) -> None:
    async def work(session_id: str) -> None:
        logs_bind(session_id=session_id)
        logs_bind(request_id=f"req_{session_id}")
        await asyncio.sleep(0)
        await sync_to_async(log.warning)("of %s", session_id)
        log.warning("of %s", "another", extra={"session_id": "given"})

    async def idle() -> None:
        log.warning("of no one")

    # Each in a context of its own, as a server's connections are; this test's own may hold what an
    # earlier test bound.
    await asyncio.gather(
        *(asyncio.create_task(task, context=Context()) for task in (work("a"), work("b"), idle()))
    )
    said = {(line["message"], line.get("session_id"), line.get("request_id")) for line in lines}
    assert said == {
        ("of a", "a", "req_a"),
        ("of b", "b", "req_b"),
        ("of another", "given", "req_a"),
        ("of another", "given", "req_b"),
        ("of no one", None, None),
    }


@pytest.mark.django_db(transaction=True)
async def test_lines_of_a_request_name_it_and_its_session(lines) -> None:
    await Call(
        application, "GET", "/v1/sessions/ses_x/events", key="wrong", x_request_id="mine"
    ).answer()
    refused = [line for line in lines if line["logger"] == "django.request"]
    assert [(line["request_id"], line["session_id"]) for line in refused] == [("mine", "ses_x")]


def test_lines_of_a_runtimes_request_name_its_session(lines, client_for, project: Project) -> None:
    session, lease = factories.runtime_make(project)
    answer = client_for(lease).post(
        "/v1/runtime/report", data={"wrong": 1}, content_type="application/json"
    )
    assert answer.status_code == 400
    assert [line["session_id"] for line in lines if line["logger"] == "django.request"] == [
        session.id
    ]


@pytest.mark.django_db(transaction=True)
async def test_a_live_channel_that_breaks_says_whose_it_was(
    lines, monkeypatch, project: Project, api_key
) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("the database is away")

    session = await sync_to_async(factories.session_make)(project)
    monkeypatch.setattr("console.live.hub.event_cursor_latest", broken)
    headers = [(b"host", b"testserver"), (b"authorization", f"Bearer {api_key}".encode())]
    client = WebsocketCommunicator(application, f"/ws/v1/sessions/{session.id}", headers=headers)
    await client.connect(timeout=25)
    await client.receive_output(timeout=25)
    assert [line["session_id"] for line in lines if line["logger"] == "console.live.consumer"] == [
        session.id
    ]


@pytest.mark.django_db(transaction=True)
async def test_lines_of_the_relay_name_the_call_and_its_session(lines, monkeypatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(relay_proxy, "caller_check", broken)
    call = Call(
        application,
        "POST",
        "/openai/v1/chat/completions",
        key=episode_key("ses_y"),
        x_request_id="mine",
    )
    assert (await call.answer())[0] == 500
    failed = [line for line in lines if line["logger"] == "api.relay.app"]
    assert [(line["request_id"], line["session_id"]) for line in failed] == [("mine", "ses_y")]
