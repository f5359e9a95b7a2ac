"""No caller sends more requests than allowed, and every response says how many are left."""

from types import SimpleNamespace

import pytest
from django.test import Client

from api.rest import rate_limit
from api.routes import api
from console.users.selectors import project_get
from support import factories


@pytest.fixture(autouse=True)
def few(settings, monkeypatch) -> None:
    """Five requests in a window of ten seconds, of which three have passed and no more will."""
    settings.RATE_LIMIT_PER_MINUTE = 30
    monkeypatch.setattr(rate_limit, "time", SimpleNamespace(time=lambda: 1_000_003.0))


def test_every_response_carries_what_is_left_and_a_refusal_when_to_come_back(
    client_for, api_key
) -> None:
    client = client_for(api_key)
    left = []
    for path in (
        "/v1/sessions",
        "/v1/sessions/ses_nothing",
        "/v1/account",
        "/v1/keys",
        "/v1/sessions",
    ):
        answer = client.get(path)
        assert answer.status_code in (200, 403, 404)
        assert answer["RateLimit-Limit"] == "5"
        assert answer["RateLimit-Reset"] == "7"
        left.append(int(answer["RateLimit-Remaining"]))
    assert left == [4, 3, 2, 1, 0]
    refused = client.get("/v1/sessions")
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limited"
    assert refused["Retry-After"] == refused["RateLimit-Reset"] == "7"
    assert refused["RateLimit-Remaining"] == "0"


def test_one_caller_does_not_use_up_anothers(client_for, api_key, project, alice, member) -> None:
    other, person = factories.key_make(project, alice), Client()
    person.force_login(member)
    for _ in range(6):
        last = client_for(api_key).get("/v1/sessions")
    assert last.status_code == 429
    assert client_for(other).get("/v1/sessions").status_code == 200
    assert person.get("/v1/sessions").status_code == 200


def test_a_person_with_many_keys_has_five_times_what_one_key_has(
    client_for, project, alice, bob
) -> None:
    keys = [client_for(factories.key_make(project, alice)) for _ in range(6)]
    for key in keys[:5]:
        assert [key.get("/v1/sessions").status_code for _ in range(5)] == [200] * 5
    refused = keys[5].get("/v1/sessions")
    assert (
        refused.status_code == 429
        and "all keys of one person" in refused.json()["error"]["message"]
    )
    assert (refused["RateLimit-Remaining"], refused["Retry-After"]) == ("0", "7")
    others = client_for(factories.key_make(project_get(user=bob), bob))
    person = Client()
    person.force_login(alice)
    assert {others.get("/v1/sessions").status_code, person.get("/v1/sessions").status_code} == {200}


def test_a_refused_post_is_not_kept_under_its_idempotency_key(
    client_for, api_key, settings
) -> None:
    client = client_for(api_key)
    body, headers = {"base_model": factories.BASE_MODEL}, {"Idempotency-Key": "k"}
    for _ in range(5):
        client.get("/v1/sessions")
    assert (
        client.post(
            "/v1/sessions", body, content_type="application/json", headers=headers
        ).status_code
        == 429
    )
    settings.RATE_LIMIT_PER_MINUTE = 60
    assert (
        client.post(
            "/v1/sessions", body, content_type="application/json", headers=headers
        ).status_code
        == 201
    )


def test_who_is_not_known_learns_nothing(client, db) -> None:
    answer = client.get("/v1/sessions")
    assert answer.status_code == 401
    assert "RateLimit-Limit" not in answer


# POSTs that need no Idempotency-Key of ours, and why.
BY_THE_GATEWAY = "the session's gateway keeps them from happening twice"
BY_NATURE = "a lease and the ids in it make a repetition the same"
NOT_ONCE = {
    "/outside-calls": "it changes nothing here",
    "/sessions/{session_id}/checkpoints/{checkpoint_id}/publish": BY_NATURE,
    "/alerts/read": "the highest number counts",
    "/sessions/dry-run": "it does nothing",
    "/sessions/{session_id}/episodes": BY_THE_GATEWAY,
    "/sessions/{session_id}/episodes/{episode_id}/end": BY_THE_GATEWAY,
    "/sessions/{session_id}/episodes/{episode_id}/abandon": BY_THE_GATEWAY,
    "/sessions/{session_id}/episodes/{episode_id}/heartbeat": BY_THE_GATEWAY,
    "/sessions/{session_id}/heartbeats": BY_THE_GATEWAY,
    "/sessions/{session_id}/rescore": BY_THE_GATEWAY,
    "/sessions/{session_id}/tasks/lease": "a lease that its worker does not know of runs out",
    "/sessions/{session_id}/tasks/{task_id}/episode": BY_NATURE,
    "/sessions/{session_id}/tasks/{task_id}/group": BY_NATURE,
    "/sessions/{session_id}/tasks/{task_id}/finish": BY_NATURE,
    "/runtime/register": BY_NATURE,
    "/runtime/heartbeat": BY_NATURE,
    "/runtime/report": BY_NATURE,
    "/runtime/episodes": BY_NATURE,
    "/runtime/documents": "it changes nothing",
    "/runtime/fail": BY_NATURE,
    "/runtime/failed-checkpoints": BY_NATURE,
    "/runtime/named-checkpoints": "the name is unique, and one number of an operation stores it once",
    "/runtime/named-states": "it changes nothing",
    "/runtime/tinker-clients": "it changes nothing",
    "/runtime/tinker-work": "a report counts once, under its own key",
    "/runtime/uploads": "each opens an upload of its own; the latest journal and a checkpoint's commit win once",
    "/runtime/uploads/{upload_id}/commit": BY_NATURE,
}


def test_every_post_honours_an_idempotency_key_or_has_a_reason_not_to() -> None:
    posts = {route.path for route in api if route.method == "POST"}
    assert posts - {route.path for route in api if route.once} == set(NOT_ONCE)
