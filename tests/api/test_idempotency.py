"""A repeated POST does its work once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from console.sessions.models import Session
from console.users.models import ApiKey, IdempotencyRecord, Project
from support import factories
from tinkerscript.wire.account import Scope

BODY = {"base_model": "SmolLM2-135M-Instruct"}


@pytest.fixture
def client(api_key: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {api_key}"})


def create(client: Client, key: str | None = "k1", body: dict | None = None):
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post(
        "/v1/sessions",
        BODY if body is None else body,
        content_type="application/json",
        headers=headers,
    )


def test_the_same_key_and_body_get_the_same_response(client) -> None:
    first, second = create(client), create(client)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    assert second["Idempotent-Replay"] == "true"
    assert Session.objects.count() == 1


def test_another_body_or_path_under_the_same_key_is_refused(client) -> None:
    made = create(client).json()
    for answer in (
        create(client, body=BODY | {"name": "other"}),
        client.post(f"/v1/sessions/{made['id']}/stop", headers={"Idempotency-Key": "k1"}),
    ):
        assert answer.status_code == 409
        assert answer.json()["error"]["code"] == "idempotency_mismatch"
    assert Session.objects.get().state == "queued"


def test_a_resume_under_other_ranks_is_another_request(client, project) -> None:
    session = factories.session_make(project, state="suspended")

    def resume(ranks: int):
        path = f"/v1/sessions/{session.id}/resume?trainer_ranks={ranks}"
        return client.post(path, headers={"Idempotency-Key": "k1"})

    first, again, other = resume(2), resume(2), resume(3)
    assert first.status_code == 200 and again.content == first.content
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_mismatch")
    assert Session.objects.get().config["trainer_ranks"] == 2


@pytest.mark.django_db(transaction=True)
def test_two_requests_at_the_same_moment_do_the_work_once(api_key) -> None:
    together = threading.Barrier(8)

    def ask(_: int) -> bytes:
        try:
            together.wait(25)
            return create(Client(headers={"Authorization": f"Bearer {api_key}"})).content
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(ask, range(8)))
    assert len(answers) == 1
    assert Session.objects.count() == 1


def test_without_a_key_each_request_is_its_own(client) -> None:
    create(client, key=None)
    create(client, key=None)
    assert Session.objects.count() == 2


def test_keys_of_two_projects_do_not_meet(client, outsider_key, client_for) -> None:
    assert create(client).json()["id"] != create(client_for(outsider_key)).json()["id"]


def test_a_refusal_is_kept_and_undoes_what_was_begun(client, monkeypatch) -> None:
    first = create(client, body={"base_model": "nothing"})
    # it is not asked again
    monkeypatch.setattr("console.sessions.dry_run.base_model_resolve", None)
    second = create(client, body={"base_model": "nothing"})
    assert (first.status_code, second.status_code) == (400, 400)
    assert first.content == second.content


def test_what_may_succeed_later_is_not_kept(client, monkeypatch) -> None:
    def broken(**_):
        Session.objects.update(name="half done")
        raise RuntimeError

    session = create(client, key=None).json()
    path = f"/v1/sessions/{session['id']}/stop"
    with monkeypatch.context() as patch:
        patch.setattr("console.sessions.services.session_stop", broken)
        assert client.post(path, headers={"Idempotency-Key": "k2"}).status_code == 500
    assert Session.objects.get().name == ""
    assert client.post(path, headers={"Idempotency-Key": "k2"}).json()["state"] == "cancelled"


def test_a_quota_that_was_full_is_looked_at_again(client, project) -> None:
    Project.objects.filter(id=project.id).update(session_quota=1)
    there = create(client, key=None).json()["id"]
    assert create(client).status_code == 429
    Session.objects.filter(id=there).update(state="stopped")
    assert create(client).status_code == 201


def test_the_secret_of_a_new_key_is_not_stored(project, alice, client_for) -> None:
    client = client_for(factories.key_make(project, alice, [Scope.ADMIN]))
    ask = {"path": "/v1/keys", "data": {"name": "n"}, "content_type": "application/json"}
    made = client.post(**ask, headers={"Idempotency-Key": "k3"})
    assert made.status_code == 201, made.content
    again = client.post(**ask, headers={"Idempotency-Key": "k3"})
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "conflict"
    assert "another" in again.json()["error"]["hint"]
    assert ApiKey.objects.filter(name="n").count() == 1
    assert made.json()["secret"] not in str(list(IdempotencyRecord.objects.values()))


def test_an_answer_is_forgotten_after_a_day(client) -> None:
    create(client)
    IdempotencyRecord.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert create(client).status_code == 201
    assert Session.objects.count() == 2
    assert IdempotencyRecord.objects.count() == 1


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "\xe9"])
def test_a_malformed_key_is_refused(key, client) -> None:
    answer = create(client, key=key)
    assert answer.status_code == 400
    assert Session.objects.count() == 0
