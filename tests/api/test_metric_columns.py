"""The steps of a session as columns, over HTTP."""

import pytest

from console.live.services import event_record
from support import factories
from tinkerscript.wire.events import EventKind

pytestmark = pytest.mark.django_db


def test_a_client_reads_the_measures_that_it_names_over_the_axis_that_it_names(
    project, api_key, client_for
):
    session = factories.session_make(project)
    for step in (1, 2, 3):
        data = {"step": step, "loss": step / 2, "tokens_trained": 10, "episodes": 4}
        event_record(session_id=session.id, kind=EventKind.METRIC, data=data)
    path = f"/v1/sessions/{session.id}/metrics"
    told = client_for(api_key).get(path, {"names": "loss", "x": "tokens", "points": 2}).json()
    assert (told["axis"], told["x"], told["steps"], told["steps_in_all"]) == (
        "tokens",
        [10, 30],
        [1, 3],
        3,
    )
    assert told["columns"] == {"loss": {"last": [0.5, 1.5], "low": [0.5, 1.0], "high": [0.5, 1.5]}}
    bare = client_for(api_key).get(path, {"names": "loss", "points": 2, "extremes": "false"}).json()
    assert bare["columns"] == {"loss": {"last": [0.5, 1.5], "low": None, "high": None}}
    part = client_for(api_key).get(path, {"names": "loss", "x_from": 2, "x_to": 2}).json()
    assert (part["steps"], part["steps_in_all"]) == ([2], 1)
    newer = client_for(api_key).get(path, {"after": told["cursor"]}).json()
    assert (newer["x"], newer["cursor"]) == ([], told["cursor"])


def test_a_list_of_sessions_has_the_measures_of_last_steps_where_it_is_asked_for_them(
    project, api_key, client_for
):
    trained, bare = (factories.session_make(project) for _ in range(2))
    for step in (1, 2):
        data = {"step": step, "loss": step / 2, "metrics": {"turns": step}, "entropy": None}
        event_record(session_id=trained.id, kind=EventKind.METRIC, data=data)
    event_record(session_id=trained.id, kind=EventKind.EVENT, data={"name": "later"})
    told = client_for(api_key).get("/v1/sessions", {"measures": "true"}).json()["items"]
    measures = {item["id"]: item["measures"] for item in told}
    assert measures == {trained.id: {"loss": 1.0, "metrics/turns": 2.0}, bare.id: {}}
    plain = client_for(api_key).get("/v1/sessions").json()["items"]
    assert [item["measures"] for item in plain] == [None, None]


@pytest.mark.parametrize(
    "query", [{"x": "loss"}, {"points": 0}, {"points": 5001}, {"names": "no_such"}, {"step": 1}]
)
def test_what_it_does_not_know_is_named(query, project, api_key, client_for):
    path = f"/v1/sessions/{factories.session_make(project).id}/metrics"
    response = client_for(api_key).get(path, query)
    assert response.status_code == 400 and next(iter(query)) in response.content.decode().replace(
        "measures", "names"
    )


def test_a_client_reads_marks_over_the_whole_record_and_how_many_are_left_out(
    project, api_key, client_for
):
    session = factories.session_make(project)
    made = [
        event_record(
            session_id=session.id,
            kind=EventKind.EVENT,
            data={"name": "checkpoint_committed", "step": step},
        ).id
        for step in range(9)
    ]
    path = f"/v1/sessions/{session.id}/events"
    told = client_for(api_key).get(path, {"marks": "true", "spread": "true", "limit": 3}).json()
    assert [item["cursor"] for item in told["items"]] == [made[0], made[4], made[8]] and told[
        "left_out"
    ] == 6
    assert client_for(api_key).get(path, {"marks": "true", "limit": 3}).json()["left_out"] == 0


@pytest.mark.parametrize(
    "query", [{}, {"marks": "true", "newest": "true"}, {"marks": "true", "wait_s": 1}]
)
def test_marks_alone_are_spread(query, project, api_key, client_for):
    path = f"/v1/sessions/{factories.session_make(project).id}/events"
    response = client_for(api_key).get(path, query | {"spread": "true"})
    assert response.status_code == 400 and "spread" in response.content.decode()
