"""Every route, tried by an owner, a member, a viewer and an outsider; by people and by their
keys.
"""

from collections.abc import Callable, Collection, Iterable

import pytest
from django.http import HttpResponse
from django.test import Client

from console.operations.outside_calls import Answered
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
    LINK_ROUTES,
    WITHOUT_ID,
    C,
    ask,
    declared,
    undone,
)
from tinkerscript.wire.account import Role, Scope

ANSWERED = (200, 201, 202, 204, 409)  # 409: the session that is tried has ended
CASES = BODIES | WITHOUT_ID
Route = tuple[str, str]  # method, path


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint elsewhere that answers, and a checkpoint that a Tinker client named: who may ask
    is what counts here.
    """

    async def answered(**_: object) -> Answered:
        return Answered(200, {})

    monkeypatch.setattr("api.views.kinds.outside_chat", answered)
    monkeypatch.setattr("api.views.checkpoints.named_publish", lambda **_: None)


@pytest.fixture
def ids(project, alice, memory_store) -> dict[str, str]:
    """Something of alice's of every kind."""
    return factories.ids_make(project, alice)


def person(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_every_route_is_tried_here() -> None:
    assert declared() == set(BODIES) | set(LEASE_BODIES) | set(WITHOUT_ID) | LINK_ROUTES
    assert all("{" in path for _, path in BODIES)
    assert not any("{" in path for _, path in WITHOUT_ID)


def differences(
    routes: Iterable[Route], expected: Callable[[Route], Collection[int]], given: Callable
) -> list[str]:
    """The routes whose ``given(method, path)`` has another status than one of ``expected``, with
    what they returned.

    Each starts from the same rows, which are made once: what a request changed is rolled back.
    """
    found = []
    for method, path in routes:
        with undone():
            answer = given(method, path)
        if answer.status_code not in expected((method, path)):
            found.append(f"{method} {path}: {answer.status_code} {answer.content[:200]!r}")
    return found


@pytest.mark.smoke
@pytest.mark.parametrize("role", Role)
def test_each_role_gets_what_it_may(role, ids, project) -> None:
    client = person(factories.member_make(project, "nora", role))

    def expected(route: Route) -> Collection[int]:
        if route in FOR_INVITED:
            return (404,)
        if route in FOR_OWNERS:
            return ANSWERED if role is Role.OWNER else (403,)
        return (
            ANSWERED
            if route[0] == "GET" or role is not Role.VIEWER or route in FOR_EVERYBODY
            else (403,)
        )

    def given(method: str, path: str) -> HttpResponse:
        return ask(client, method, path, ids, CASES[method, path], X_Project_Id=project.id)

    assert differences(CASES, expected, given) == []


@pytest.mark.smoke
@pytest.mark.parametrize("role", Role)
def test_a_key_gets_what_its_maker_may(role, ids, project, client_for) -> None:
    user = factories.member_make(project, "nora", role)
    scopes = {
        Role.OWNER: list(Scope),
        Role.MEMBER: factories.EVERY_SCOPE,
        Role.VIEWER: [Scope.SESSIONS_READ],
    }[role]
    client = client_for(factories.key_make(project, user, scopes))

    def expected(route: Route) -> Collection[int]:
        if route in FOR_INVITED | FOR_PEOPLE:
            return (403,)
        if route in FOR_ADMIN_KEYS:
            return ANSWERED if role is Role.OWNER else (403,)
        is_read = route[0] == "GET" and "/checkpoints" not in route[1]
        return ANSWERED if role is not Role.VIEWER or is_read else (403,)

    assert differences(CASES, expected, lambda *route: ask(client, *route, ids, CASES[route])) == []


@pytest.mark.smoke
@pytest.mark.parametrize("by_key", [False, True])
def test_an_outsider_gets_not_found(by_key, ids, bob, client_for) -> None:
    own = Project.objects.get(memberships__user=bob)
    client = client_for(factories.key_make(own, bob, list(Scope))) if by_key else person(bob)

    def given(method: str, path: str) -> HttpResponse:
        answer = ask(client, method, path, ids, BODIES[method, path])
        missing = ask(client, method, path, {name: "nothing" for name in ids}, BODIES[method, path])
        assert (missing.status_code, missing.json()["error"]) == (
            answer.status_code,
            answer.json()["error"],
        )
        return answer

    routes = [route for route in BODIES if not (by_key and route in FOR_INVITED | FOR_PEOPLE)]
    assert differences(routes, lambda _: (404,), given) == []


@pytest.mark.smoke
def test_another_project_of_the_same_person_is_another_tenant(ids, alice, client_for) -> None:
    client = client_for(
        factories.key_make(project_create(user=alice, name="second"), alice, list(Scope))
    )

    def expected(route: Route) -> Collection[int]:
        return (403,) if route in FOR_INVITED | FOR_PEOPLE else (404,)

    assert (
        differences(BODIES, expected, lambda *route: ask(client, *route, ids, BODIES[route])) == []
    )


def test_no_one_gets_in_without_a_key(ids) -> None:
    def given(method: str, path: str) -> HttpResponse:
        answer = ask(Client(), method, path, ids | {"upload_id": "upl_1"}, {})
        assert answer.json()["error"]["code"] == "unauthenticated"
        return answer

    assert differences([*CASES, *LEASE_BODIES, *LINK_ROUTES], lambda _: (401,), given) == []


def test_a_checkpoint_is_reached_through_its_own_session_only(
    ids, project, api_key, client_for
) -> None:
    other = factories.session_make(project)
    answer = ask(client_for(api_key), "GET", C, ids | {"session_id": other.id}, None)
    assert answer.status_code == 404


def test_a_runtime_commits_its_own_uploads_only(project, bob, client_for) -> None:
    session, lease = factories.runtime_make(project)
    _, foreign = factories.runtime_make(Project.objects.get(memberships__user=bob))
    Upload.objects.create(id="upl_1", session=session, files=[])
    path = "/runtime/uploads/{upload_id}/commit"
    answer = ask(
        client_for(foreign), "POST", path, {"upload_id": "upl_1"}, LEASE_BODIES["POST", path]
    )
    assert answer.status_code == 404
    unknown = ask(
        client_for(lease), "POST", path, {"upload_id": "upl_2"}, LEASE_BODIES["POST", path]
    )
    assert unknown.status_code == 404
