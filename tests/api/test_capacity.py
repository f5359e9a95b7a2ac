"""Capacity: what a project has of the server and waits for, and to the operator alone what every
project has.
"""

import pytest
from django.test import Client

from console.scheduling.instance import drain_begin
from console.scheduling.models import WarmRuntime
from console.sessions.limits.devices import Device, devices_sync
from console.users.models import Project
from support import factories
from tinkerscript.wire.account import Role
from tinkerscript.wire.server import CapacityView
from tinkerscript.wire.sessions import SessionState

pytestmark = pytest.mark.django_db


@pytest.fixture
def his(bob) -> Project:
    return Project.objects.get(memberships__user=bob)


def capacity(user, project: Project) -> CapacityView:
    client = Client()
    client.force_login(user)
    answer = client.get("/v1/capacity", headers={"X-Project-Id": project.id})
    assert answer.status_code == 200
    return CapacityView.model_validate_json(answer.content)


def test_a_project_is_told_of_its_own_sessions_and_devices_and_nothing_of_others(
    alice, project, his, settings
) -> None:
    settings.MAX_RUNTIMES = 3
    devices_sync(ids=["0", "1", "2", "3"])
    hers, _ = factories.runtime_make(project, name="hers", devices=2)
    waits = factories.session_make(project, state=SessionState.QUEUED, name="waits")
    Device.objects.filter(id__in=["0", "1"]).update(session=hers)
    told = capacity(alice, project)
    assert (told.max_runtimes, told.is_draining, told.server) == (3, False, None)
    assert [(row.session_id, row.state, row.devices) for row in told.running] == [
        (hers.id, "ready", ["0", "1"])
    ]
    assert [(row.session_id, row.position, row.is_held) for row in told.waiting] == [
        (waits.id, 1, False)
    ]
    assert told.quotas.devices.used == 2
    foreign, _ = factories.runtime_make(his, name="his run", devices=1)
    Device.objects.filter(id="2").update(session=foreign)
    assert capacity(alice, project) == told
    viewer = factories.member_make(project, "vera", Role.VIEWER)
    assert capacity(viewer, project) == told


def test_places_count_the_sessions_of_the_project_and_those_of_all_for_the_operator_alone(
    alice, bob, project, his, settings
) -> None:
    settings.MAX_RUNTIMES = 3
    factories.session_make(project, state=SessionState.QUEUED)
    factories.runtime_make(his)

    def counts(user, of: Project, **headers: str) -> list[tuple[int, int]]:
        client = Client()
        if user is not None:
            client.force_login(user)
        items = client.get("/v1/places", headers={"X-Project-Id": of.id} | headers).json()["items"]
        return [(item["running"], item["queued"]) for item in items]

    assert counts(alice, project) == [(0, 1)] and counts(bob, his) == [(1, 0)]
    bob.is_staff = True
    bob.save()
    assert counts(bob, his) == [(1, 1)]
    key = factories.key_make(his, bob)
    assert counts(None, his, Authorization=f"Bearer {key}") == [(1, 0)], "a key is for one project"


def test_a_session_that_its_quota_holds_back_says_so_and_a_drain_is_told(alice, project) -> None:
    Project.objects.filter(id=project.id).update(device_quota=1)
    factories.runtime_make(project, devices=0)
    held = factories.session_make(project, state=SessionState.QUEUED)
    drain_begin()
    told = capacity(alice, project)
    assert [(row.session_id, row.is_held) for row in told.waiting] == [(held.id, True)]
    assert told.is_draining and [row.devices for row in told.running] == [[]]


def test_the_operator_is_told_of_the_whole_server_and_a_key_of_his_is_not(
    project, bob, his
) -> None:
    devices_sync(ids=["0", "1", "2"])
    WarmRuntime.objects.create(id="warm-1", is_ready=True)
    WarmRuntime.objects.create(id="warm-2")
    hers, _ = factories.runtime_make(project, name="hers", devices=1)
    Device.objects.filter(id="0").update(session=hers)
    factories.session_make(his, state=SessionState.QUEUED)
    bob.is_staff = True
    bob.save()
    server = capacity(bob, his).server
    assert server is not None and server.oldest_waits_since is not None
    assert (server.runtimes, server.waiting, server.warm_runtimes) == (1, 1, 1)
    assert [(one.device, one.used_by, one.session_name) for one in server.devices] == [
        ("0", "session", "hers"), ("1", "nobody", None), ("2", "nobody", None),
    ]  # fmt: skip
    assert [(row.project_id, row.runtimes, row.devices, row.waiting) for row in server.projects] == [
        (project.id, 1, 1, 0), (his.id, 0, 0, 1),
    ]  # fmt: skip
    key = factories.key_make(his, bob)
    by_key = Client().get("/v1/capacity", headers={"Authorization": f"Bearer {key}"}).json()
    assert by_key["server"] is None
