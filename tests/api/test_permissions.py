"""Every route, tried by an owner, a member, a viewer and an outsider; by people and by their keys."""

import pytest
from django.test import Client

from console.sessions.models import Upload
from console.users.models import Project, User
from console.users.services import project_create
from support import factories
from support.route_cases import (
    BODIES,
    FOR_ADMIN_KEYS,
    FOR_EVERYBODY,
    FOR_INVITED,
    FOR_OWNERS,
    FOR_PEOPLE,
    LEASE_BODIES,
    WITHOUT_ID,
    C,
    ask,
    declared,
)
from tinkerscript.wire.account import Role, Scope

ANSWERED = (200, 201, 202, 204, 409)  # 409: the session that is tried has ended
CASES = BODIES | WITHOUT_ID


@pytest.fixture
def ids(project, alice) -> dict[str, str]:
    """Something of alice's of every kind."""
    return factories.ids_make(project, alice)


def person(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_every_route_is_tried_here() -> None:
    assert declared() == set(BODIES) | set(LEASE_BODIES) | set(WITHOUT_ID)
    assert all("{" in path for _, path in BODIES)
    assert not any("{" in path for _, path in WITHOUT_ID)


@pytest.mark.parametrize(("method", "path"), CASES)
@pytest.mark.parametrize("role", Role)
def test_each_role_gets_what_it_may(role, method, path, ids, project) -> None:
    user = factories.member_make(project, "nora", role)
    answer = ask(person(user), method, path, ids, CASES[method, path], X_Project_Id=project.id)
    if (method, path) in FOR_INVITED:
        assert answer.status_code == 404, answer.content
    elif (method, path) in FOR_OWNERS:
        assert answer.status_code in (ANSWERED if role is Role.OWNER else (403,)), answer.content
    else:
        may = method == "GET" or role is not Role.VIEWER or (method, path) in FOR_EVERYBODY
        assert answer.status_code in (ANSWERED if may else (403,)), answer.content


@pytest.mark.parametrize(("method", "path"), CASES)
@pytest.mark.parametrize("role", Role)
def test_a_key_gets_what_its_maker_may(role, method, path, ids, project, client_for) -> None:
    user = factories.member_make(project, "nora", role)
    scopes = {Role.OWNER: list(Scope), Role.MEMBER: factories.EVERY_SCOPE, Role.VIEWER: [Scope.SESSIONS_READ]}[role]
    answer = ask(client_for(factories.key_make(project, user, scopes)), method, path, ids, CASES[method, path])
    if (method, path) in FOR_INVITED | FOR_PEOPLE:
        may = False
    elif (method, path) in FOR_ADMIN_KEYS:
        may = role is Role.OWNER
    else:
        may = role is not Role.VIEWER or (method == "GET" and "/checkpoints" not in path)
    assert answer.status_code in (ANSWERED if may else (403,)), answer.content


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_an_outsider_gets_not_found(method, path, ids, bob, client_for) -> None:
    own = Project.objects.get(memberships__user=bob)
    clients = [person(bob)]
    if (method, path) not in FOR_INVITED:
        clients.append(client_for(factories.key_make(own, bob, list(Scope))))
    for client in clients:
        answer = ask(client, method, path, ids, BODIES[method, path])
        assert answer.status_code == 404, answer.content
        missing = ask(client, method, path, {name: "nothing" for name in ids}, BODIES[method, path])
        assert missing.status_code == 404
        assert missing.json()["error"] == answer.json()["error"]


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_another_project_of_the_same_person_is_another_tenant(method, path, ids, alice, client_for) -> None:
    second = project_create(user=alice, name="second")
    answer = ask(client_for(factories.key_make(second, alice, list(Scope))), method, path, ids, BODIES[method, path])
    assert answer.status_code == (403 if (method, path) in FOR_INVITED else 404)


@pytest.mark.parametrize(("method", "path"), [*CASES, *LEASE_BODIES])
def test_no_one_gets_in_without_a_key(method, path, ids, client) -> None:
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
