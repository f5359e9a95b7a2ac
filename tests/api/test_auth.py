"""Keys, scopes, the console's cookie."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from console.users.models import ApiKey, Membership
from console.users.services import project_create
from support import factories
from tinkerscript.wire.account import Role, Scope
from tinkerscript.wire.errors import ErrorBody


def refused(answer, status: int, code: str) -> ErrorBody:
    assert answer.status_code == status, answer.content
    body = ErrorBody.model_validate_json(answer.content)
    assert body.error.code == code
    assert body.error.hint or status == 404
    assert body.request_id == answer["X-Request-Id"]
    return body


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer \xe9\xe8",
        "Bearer " + "x" * 5000,
        "Basic dXNlcjpwYXNz",
        "tml-ts_bare",
        "Bearer tml-ts_unknown",
        "Bearer a b",
        "Bearer \x00",
        "Bearer tml-ep-x.y",
    ],
)
def test_a_malformed_or_wrong_key_is_401_and_names_where_to_make_one(
    header: str, client: Client, db: None
) -> None:
    body = refused(
        client.get("/v1/account", headers={"Authorization": header}), 401, "unauthenticated"
    )
    assert "/keys" in body.error.hint


def test_a_revoked_key_stops_at_once(api_key, client_for) -> None:
    client = client_for(api_key)
    assert client.get("/v1/account").status_code == 200
    ApiKey.objects.update(revoked_at=timezone.now())
    refused(client.get("/v1/account"), 401, "unauthenticated")


def test_an_expired_key_is_refused(api_key, client_for) -> None:
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    refused(client_for(api_key).get("/v1/account"), 401, "unauthenticated")


def test_a_key_sees_its_own_project_alone(project, member, client_for) -> None:
    answer = client_for(factories.key_make(project, member)).get("/v1/account").json()
    assert answer["email"] == member.email
    assert [(entry["id"], entry["role"]) for entry in answer["projects"]] == [
        (project.id, "member")
    ]


def test_a_key_lists_no_other_project_of_its_maker(project, alice, client_for) -> None:
    project_create(user=alice, name="another")
    listed = client_for(factories.key_make(project, alice)).get("/v1/projects").json()["items"]
    assert [entry["id"] for entry in listed] == [project.id]


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/v1/sessions", Scope.SESSIONS_READ),
        ("GET", "/v1/base-models", Scope.SESSIONS_READ),
        ("POST", "/v1/sessions", Scope.SESSIONS_WRITE),
        ("POST", "/v1/sessions/ses_1/stop", Scope.SESSIONS_WRITE),
        ("POST", "/v1/sessions/ses_1/episodes", Scope.EPISODES),
        ("POST", "/v1/sessions/ses_1/episodes/ep_1/end", Scope.EPISODES),
        ("GET", "/v1/sessions/ses_1/checkpoints", Scope.CHECKPOINTS_READ),
        ("GET", "/v1/keys", Scope.ADMIN),
        ("POST", "/v1/keys", Scope.ADMIN),
    ],
)
def test_each_route_needs_its_scope_and_admin_is_all_of_them(
    method, path, scope, project, alice, client_for
) -> None:
    others = [other for other in Scope if other not in (scope, Scope.ADMIN)]
    answer = client_for(factories.key_make(project, alice, others)).generic(method, path)
    assert refused(answer, 403, "forbidden").error.details["needed"] == scope
    for scopes in ([scope], [Scope.ADMIN]):
        answer = client_for(factories.key_make(project, alice, scopes)).generic(method, path)
        assert answer.status_code not in (401, 403), answer.content


def test_a_key_loses_what_its_maker_may_no_longer_do(project, member, client_for) -> None:
    client = client_for(factories.key_make(project, member))
    Membership.objects.filter(project=project, user=member).update(role=Role.VIEWER)
    refused(client.post("/v1/sessions", {}, content_type="application/json"), 403, "forbidden")
    assert client.get("/v1/sessions").status_code == 200
    Membership.objects.filter(project=project, user=member).delete()
    refused(client.get("/v1/sessions"), 401, "unauthenticated")


def test_a_person_signs_in_with_a_cookie_and_writes_with_csrf(alice, project) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    assert client.get("/v1/account").json()["projects"][0]["id"] == project.id
    body = {"name": "mine"}
    refused(client.post("/v1/keys", body, content_type="application/json"), 403, "forbidden")
    client.get("/")  # the console's page brings the token
    token = client.cookies["csrftoken"].value
    answer = client.post(
        "/v1/keys", body, content_type="application/json", headers={"X-CSRFToken": token}
    )
    assert answer.status_code == 201, answer.content
    assert answer.json()["secret"].startswith("tml-ts_")


def test_a_cookie_does_not_lift_a_wrong_key(alice, client) -> None:
    client.force_login(alice)
    refused(
        client.get("/v1/account", headers={"Authorization": "Bearer tml-ts_wrong"}),
        401,
        "unauthenticated",
    )


def test_a_person_chooses_a_project_that_they_are_in(member, project, bob) -> None:
    client = Client()
    client.force_login(member)
    session = factories.session_make(project)
    # their own project comes first
    assert client.get(f"/v1/sessions/{session.id}").status_code == 404
    assert (
        client.get(f"/v1/sessions/{session.id}", headers={"X-Project-Id": project.id}).status_code
        == 200
    )
    client.force_login(bob)
    refused(client.get("/v1/sessions", headers={"X-Project-Id": project.id}), 404, "not_found")


def test_a_key_is_shown_once_and_revoked_for_good(alice) -> None:
    client = Client()
    client.force_login(alice)
    made = client.post("/v1/keys", {"name": "mine"}, content_type="application/json").json()
    listed = client.get("/v1/keys").json()["items"]
    assert [key["id"] for key in listed] == [made["id"]]
    assert "secret" not in listed[0]
    assert made["secret"] not in str(listed)
    assert client.delete(f"/v1/keys/{made['id']}").status_code == 204
    refused(
        client.get("/v1/account", headers={"Authorization": f"Bearer {made['secret']}"}),
        401,
        "unauthenticated",
    )


def test_a_lease_is_no_api_key_and_an_api_key_no_lease(project, api_key, client_for) -> None:
    _, lease = factories.runtime_make(project)
    refused(client_for(lease).get("/v1/account"), 401, "unauthenticated")
    refused(client_for(api_key).post("/v1/runtime/register"), 409, "stale_lease")
    assert client_for(lease).post("/v1/runtime/register").status_code == 200
