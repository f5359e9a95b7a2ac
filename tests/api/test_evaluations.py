"""What an evaluation measured is kept in the session's record, as it was sent or not at all."""

import pytest

from support import factories
from tinkerscript.wire.account import Scope

MEASURED = {
    "name": "held out",
    "step": 4,
    "reward_mean": 0.25,
    "reward_std": 0.5,
    "episodes": 8,
    "failed": 1,
}
MEASURED |= {
    "by_task": {"a": {"reward_mean": 0.5, "reward_std": None, "episodes": 1}},
    "metrics": {"reward/format": 0.1},
}


@pytest.fixture
def session(project):
    return factories.session_make(project)


def record(client, session, body, **headers):
    path = f"/v1/sessions/{session.id}/evaluations"
    return client.post(path, body, content_type="application/json", headers=headers)


def test_it_is_an_entry_of_the_record_and_no_step(client_for, api_key, session) -> None:
    client = client_for(api_key)
    made = record(client, session, MEASURED, **{"Idempotency-Key": "once"})
    assert made.status_code == 201
    assert (
        record(client, session, MEASURED, **{"Idempotency-Key": "once"}).json()["cursor"]
        == made.json()["cursor"]
    )
    (entry,) = client.get(f"/v1/sessions/{session.id}/events?kind=evaluation").json()["items"]
    assert entry["data"] == {**MEASURED, "success_rate": None}
    assert client.get(f"/v1/sessions/{session.id}/metrics").json()["steps_in_all"] == 0


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"episodes": 0}, "episodes"),
        ({"success_rate": 1.5}, "success_rate"),
        ({"reward_std": -1}, "reward_std"),
        ({"step": -1}, "step"),
        ({"name": ""}, "name"),
        ({"reward_median": 1}, "reward_median"),
        ({"by_task": {"a": 0.5}}, "by_task.a"),
        ({"by_task": {f"{n}": MEASURED["by_task"]["a"] for n in range(201)}}, "by_task"),
        ({"metrics": {f"{n}": 0.5 for n in range(101)}}, "metrics"),
    ],
)
def test_a_wrong_field_is_named(client_for, api_key, session, wrong, field) -> None:
    answer = record(client_for(api_key), session, MEASURED | wrong)
    assert answer.status_code == 400
    assert field in answer.content.decode()


def test_a_session_that_has_ended_and_a_key_that_only_reads_are_refused(
    client_for, api_key, session, project, alice
):
    reader = factories.key_make(project, alice, [Scope.SESSIONS_READ])
    assert record(client_for(reader), session, MEASURED).status_code == 403
    type(session).objects.filter(id=session.id).update(state="stopped")
    answer = record(client_for(api_key), session, MEASURED)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    assert "stopped" in answer.json()["error"]["message"]
