"""The live channel of a project: what moves in its sessions comes within a second or two, and
nothing else does.
"""

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.db import connection
from django.utils import timezone

from console.asgi import application
from console.live import consumer
from console.sessions import project_changes
from console.sessions.models import Session
from console.sessions.runtime import leases
from console.users.models import Project
from support import factories
from tinkerscript.wire.runtime import RuntimeStage, RuntimeState
from tinkerscript.wire.sessions import SessionChange, SessionChanges, SessionState

pytestmark = pytest.mark.django_db(transaction=True)
BEAT = {"state": RuntimeStage.READY, "progress": 1, "address": "127.0.0.1:4100"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_changes, "POLL_INTERVAL_S", 0.02)


def socket(project_id: str, key: str, query: str = "") -> WebsocketCommunicator:
    headers = [(b"host", b"testserver"), (b"authorization", f"Bearer {key}".encode())]
    return WebsocketCommunicator(
        application, f"/ws/v1/projects/{project_id}{query}", headers=headers
    )


async def page(client: WebsocketCommunicator) -> SessionChanges:
    return SessionChanges.model_validate_json(await client.receive_from(timeout=25))


async def told(client: WebsocketCommunicator, session: Session, **fields: Any) -> SessionChange:
    """The first change of the session that has these values."""
    while True:
        for change in (await page(client)).items:
            if change.id == session.id and all(
                getattr(change, name) == value for name, value in fields.items()
            ):
                return change


async def beat(token: str, **fields: Any) -> None:
    """A heartbeat of the session's runtime."""
    body = RuntimeState(**(BEAT | fields))
    await sync_to_async(
        lambda: leases.runtime_heartbeat(session=leases.lease_check(token=token), body=body)
    )()


async def test_step_reward_phase_and_state_are_told_and_an_idle_heartbeat_is_not(
    project: Project, api_key
) -> None:
    session, token = await sync_to_async(factories.runtime_make)(project)
    client = socket(project.id, api_key)
    await client.connect(timeout=25)
    assert (await page(client)).next_cursor > 0
    await beat(token, policy_version=3, reward_mean=0.25, phase="training step 4")
    await told(
        client, session, policy_version=3, reward_mean=0.25, phase="training step 4", state="ready"
    )
    for _ in range(3):
        await beat(token, policy_version=3, reward_mean=0.25, phase="training step 4")
    assert await client.receive_nothing(timeout=0.3)
    await Session.objects.filter(id=session.id).aupdate(
        state=SessionState.STOPPING, updated_at=timezone.now()
    )
    await told(client, session, state="stopping")
    await client.disconnect(timeout=25)
    assert project_changes.feeds == {}, "nobody watches: nothing is read any more"


async def test_a_place_in_the_queue_moves_without_its_row(
    project: Project, api_key, monkeypatch
) -> None:
    session = await sync_to_async(factories.session_make)(project)
    places = {session.id: 2}
    monkeypatch.setattr(
        project_changes, "queue_positions", lambda ids: {each: places[each] for each in ids}
    )
    client = socket(project.id, api_key)
    await client.connect(timeout=25)
    await told(client, session, queue_position=2)
    places[session.id] = 1
    await told(client, session, queue_position=1)
    await client.disconnect(timeout=25)


async def test_a_cursor_brings_what_moved_meanwhile_and_of_very_much_that_it_did(
    project: Project, api_key, monkeypatch
) -> None:
    session, token = await sync_to_async(factories.runtime_make)(project)
    client = socket(project.id, api_key)
    await client.connect(timeout=25)
    cursor = (await page(client)).next_cursor
    await client.disconnect(timeout=25)
    await beat(token, policy_version=5)
    client = socket(project.id, api_key, f"?after={cursor}")
    await client.connect(timeout=25)
    await told(client, session, policy_version=5)
    await client.disconnect(timeout=25)
    monkeypatch.setattr(project_changes, "MAX_MISSED", 0)
    client = socket(project.id, api_key, f"?after={cursor}")
    await client.connect(timeout=25)
    first = await page(client)
    assert (first.is_cut, first.items) == (True, [])
    await client.disconnect(timeout=25)


async def test_more_than_a_message_holds_comes_in_the_next_ones(
    project: Project, api_key, monkeypatch
) -> None:
    monkeypatch.setattr(project_changes, "MAX_TOLD", 1)
    made = [(await sync_to_async(factories.runtime_make)(project))[0].id for _ in range(4)]
    client = socket(project.id, api_key)
    await client.connect(timeout=25)
    await page(client)
    moved = {"phase": "moved", "updated_at": timezone.now()}
    await Session.objects.filter(id__in=made).aupdate(**moved)
    first = await page(client)
    while not first.items or first.items[0].phase != "moved":
        first = await page(client)
    await client.disconnect(timeout=25)
    client = socket(project.id, api_key, f"?after={first.next_cursor}")
    await client.connect(timeout=25)
    seen: set[str] = set()
    while seen < set(made):  # among them those that the first client had no time to be told
        told = await page(client)
        assert len(told.items) <= 1 and not told.is_cut
        seen |= {change.id for change in told.items if change.phase == "moved"}
    await client.disconnect(timeout=25)


@pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL reads a table of a few rows whole"
)
def test_what_moved_in_a_project_is_found_by_an_index(project: Project) -> None:
    rows = Session.objects.filter(project_id=project.id, updated_at__gt=timezone.now())
    assert "session_changes" in rows.order_by("-updated_at").explain()


@pytest.mark.parametrize("query", ["?kinds=state", "?after=x", "?after=-1"])
async def test_what_the_channel_does_not_know_is_refused(project: Project, api_key, query) -> None:
    client = socket(project.id, api_key, query)
    await client.connect(timeout=25)
    assert (await client.receive_output(timeout=25))["code"] == 4400


async def test_both_channels_count_against_one_cap_of_a_key(
    project: Project, api_key, monkeypatch
) -> None:
    monkeypatch.setattr(consumer, "MAX_PER_CREDENTIAL", 1)
    session = await sync_to_async(factories.session_make)(project)
    first = socket(project.id, api_key)
    await first.connect(timeout=25)
    await page(first)
    headers = [(b"host", b"testserver"), (b"authorization", f"Bearer {api_key}".encode())]
    second = WebsocketCommunicator(application, f"/ws/v1/sessions/{session.id}", headers=headers)
    await second.connect(timeout=25)
    assert (await second.receive_output(timeout=25))["code"] == 4429
    await first.disconnect(timeout=25)
