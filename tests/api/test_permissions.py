"""Every route that takes an id, tried by its owner, a member of the project and an outsider."""

import json

import factories
import pytest
from django.test import Client

from api.urls import api
from console.sessions.models import Checkpoint, Upload
from console.users.models import ApiKey, Project, User
from console.users.services import project_create
from tinkerscript.wire.account import Role, Scope
from tinkerscript.wire.sessions import SessionState

S = "/sessions/{session_id}"
C = S + "/checkpoints/{checkpoint_id}"
E = S + "/episodes/{episode_id}"
BODIES = {
    ("DELETE", "/keys/{key_id}"): None,
    ("GET", S): None,
    ("POST", S + "/stop"): None,
    ("GET", S + "/events"): None,
    ("POST", S + "/checkpoints"): {},
    ("GET", S + "/checkpoints"): None,
    ("GET", C): None,
    ("GET", C + "/download"): None,
    ("POST", S + "/episodes"): {},
    ("GET", S + "/episodes"): None,
    ("GET", E): None,
    ("POST", E + "/end"): {"output": {"reward": 1.0}},
    ("POST", E + "/abandon"): {},
    ("POST", E + "/heartbeat"): None,
    ("GET", S + "/accounting"): None,
}
LEASE_BODIES = {("POST", "/runtime/uploads/{upload_id}/commit"): {"files": []}}
WITHOUT_ID = {
    ("GET", "/account"),
    ("GET", "/keys"),
    ("POST", "/keys"),
    ("GET", "/base-models"),
    ("GET", "/sessions"),
    ("POST", "/sessions"),
    ("POST", "/runtime/register"),
    ("POST", "/runtime/heartbeat"),
    ("POST", "/runtime/report"),
    ("POST", "/runtime/fail"),
    ("POST", "/runtime/uploads"),
}


@pytest.fixture
def ids(project: Project, alice: User) -> dict[str, str]:
    """Something of alice's to reach for, in a session that ended: she is answered, with a 409 where that matters."""
    session = factories.session_make(project, state=SessionState.STOPPED)
    checkpoint = Checkpoint.objects.create(session=session, kind="model")
    factories.key_make(project, alice)
    key = ApiKey.objects.filter(project=project).latest("created_at")
    return {
        "session_id": session.id,
        "checkpoint_id": checkpoint.id,
        "episode_id": "ep_1",
        "key_id": key.id,
    }


def ask(client: Client, method: str, path: str, ids: dict[str, str], body: object):
    data = "" if body is None else json.dumps(body)
    return client.generic(method, "/v1" + path.format(**ids), data=data, content_type="application/json")


def test_every_route_is_tried_here() -> None:
    declared = {(method, path) for path, methods in api.methods.items() for method in methods}
    assert declared == set(BODIES) | set(LEASE_BODIES) | WITHOUT_ID
    assert all("{" in path for _, path in [*BODIES, *LEASE_BODIES])
    assert not any("{" in path for _, path in WITHOUT_ID)


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_owner_and_member_get_in(method, path, ids, project, alice, member, client_for) -> None:
    for user in (alice, member):
        scopes = list(Scope) if user == alice else factories.EVERY_SCOPE
        secret = factories.key_make(project, user, scopes)
        answer = ask(client_for(secret), method, path, ids, BODIES[method, path])
        if path == "/keys/{key_id}" and user == member:
            assert answer.status_code == 403  # a member's key is no admin
        else:
            assert answer.status_code in (200, 202, 204, 409), answer.content


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_an_outsider_is_told_that_it_does_not_exist(method, path, ids, bob, client_for) -> None:
    own = Project.objects.get(memberships__user=bob)
    secret = factories.key_make(own, bob, list(Scope))
    answer = ask(client_for(secret), method, path, ids, BODIES[method, path])
    assert answer.status_code == 404, answer.content
    missing = ask(client_for(secret), method, path, {name: "nothing" for name in ids}, BODIES[method, path])
    assert missing.status_code == 404
    assert missing.json()["error"] == answer.json()["error"]


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_another_project_of_the_same_person_is_another_tenant(method, path, ids, alice, client_for) -> None:
    second = project_create(user=alice, name="second")
    answer = ask(client_for(factories.key_make(second, alice, list(Scope))), method, path, ids, BODIES[method, path])
    assert answer.status_code == 404


@pytest.mark.parametrize(("method", "path"), [*BODIES, *WITHOUT_ID, *LEASE_BODIES])
def test_nobody_gets_in_without_a_key(method, path, ids, client) -> None:
    answer = ask(client, method, path, ids | {"upload_id": "upl_1"}, {})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthenticated"


def test_a_checkpoint_is_reached_through_its_own_session_only(ids, project, api_key, client_for) -> None:
    other = factories.session_make(project)
    answer = ask(client_for(api_key), "GET", C, ids | {"session_id": other.id}, None)
    assert answer.status_code == 404


def test_a_runtime_commits_its_own_uploads_only(project, bob, client_for) -> None:
    session, lease = factories.runtime_make(project)
    _, foreign = factories.runtime_make(Project.objects.get(memberships__user=bob))
    Upload.objects.create(id="upl_1", session=session, files=[])
    path = "/runtime/uploads/{upload_id}/commit"
    answer = ask(client_for(foreign), "POST", path, {"upload_id": "upl_1"}, LEASE_BODIES["POST", path])
    assert answer.status_code == 404
    unknown = ask(client_for(lease), "POST", path, {"upload_id": "upl_2"}, LEASE_BODIES["POST", path])
    assert unknown.status_code == 404


def test_a_viewer_reads_and_changes_nothing(ids, project) -> None:
    client = Client()
    client.force_login(factories.member_make(project, "vera", Role.VIEWER))
    headers = {"X-Project-Id": project.id}
    for method, path in BODIES:
        answer = client.generic(
            method, "/v1" + path.format(**ids), data="{}", content_type="application/json", headers=headers
        )
        assert (answer.status_code == 403) == (method != "GET"), (method, path, answer.content)
