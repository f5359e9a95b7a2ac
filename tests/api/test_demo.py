"""The demo run is a real run that has ended, the same for everybody, and nothing of a project."""

import json
import re

import pytest
from django.test import Client

from api.demo import FOLDER, demo_run
from support.factories import member_make
from tinkerscript.wire.account import Role
from tinkerscript.wire.sessions import Accounting, SessionView

MAX_BYTES = 600_000  # of the recording
# What would say where it was made, or by which program of which person.
PERSONAL = re.compile(
    rb"/(?:work|tmp|root|home|Users)/|@[a-z]+\.[a-z]|tsk_|ts_[a-z]+_[0-9A-Za-z]{8}"
)


@pytest.fixture(scope="module")
def run() -> SessionView:
    (session,) = demo_run().get("/v1/sessions", {})["items"]
    return SessionView.model_validate(session)


def read(path: str, **asked: str) -> dict:
    answer = Client().get(f"/demo/v1{path}", asked)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_everybody_reads_the_same_and_it_is_no_row_of_a_project(
    run: SessionView, project, alice, bob, member
) -> None:
    viewer = member_make(project, "vera", Role.VIEWER)
    answers = []
    for person in (None, alice, member, viewer, bob):
        client = Client()
        if person is not None:
            client.force_login(person)
        answers.append(client.get(f"/demo/v1/sessions/{run.id}").content)
        if person is not None:
            assert client.get("/v1/sessions").json()["items"] == []
            assert client.get(f"/v1/sessions/{run.id}").status_code == 404
            used = client.get("/v1/usage").json()
            assert (used["items"], used["total"]["runtime_s"]) == ([], 0)
            assert used["quotas"]["storage_bytes"]["used"] == 0
            assert client.get("/v1/alerts").json()["items"] == []
    assert len(set(answers)) == 1
    assert SessionView.model_validate_json(answers[0]) == run


def test_it_is_a_finished_run_whose_numbers_agree(run: SessionView) -> None:
    assert (run.name, run.state) == ("quickstart", "stopped")
    steps = read(f"/sessions/{run.id}/metrics", points="1000")
    rewards = steps["columns"]["reward_mean"]["last"]
    assert steps["steps"] == list(range(1, run.policy_version + 1))
    assert rewards[-1] > rewards[0]
    accounting = Accounting.model_validate(read(f"/sessions/{run.id}/accounting"))
    assert accounting.balances and accounting.begun > 100
    facets = read(f"/sessions/{run.id}/episodes/facets")
    assert facets["episodes"] == accounting.begun
    evaluated = read(f"/sessions/{run.id}/events", kind="evaluation")["items"]
    scores = [each["data"]["success_rate"] for each in evaluated]
    assert 0 < scores[0] < scores[-1] <= 1


def test_its_episodes_are_read_to_the_token(run: SessionView) -> None:
    listed = read(f"/sessions/{run.id}/episodes", sort="newest", fate="trained", limit="100")
    trained = Accounting.model_validate(read(f"/sessions/{run.id}/accounting")).trained
    assert len(listed["items"]) == min(trained, 100) > 50
    for episode in listed["items"][::20]:
        path = f"/sessions/{run.id}/episodes/{episode['episode_id']}/timelines"
        (timeline,) = read(path, limit="1000")["timelines"]
        sampled = [each for each in timeline["runs"] if each["call"] is not None]
        assert sum(len(each["logprobs"]) for each in sampled) == episode["sampled_tokens"]


def test_it_is_only_read_and_has_nothing_else(run: SessionView) -> None:
    client = Client(enforce_csrf_checks=True)
    for method in (client.post, client.patch, client.delete, client.put):
        refused = method(f"/demo/v1/sessions/{run.id}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (405, "method_not_allowed")
    for path in ("/keys", "/sessions/ses_none", f"/sessions/{run.id}/shares", "/../../manage.py"):
        refused = client.get(f"/demo/v1{path}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found"), path
    refused = client.get(f"/demo/v1/sessions/{run.id}/episodes", {"limit": "many"})
    assert refused.status_code == 400


def test_the_recording_is_small_and_names_no_machine_and_no_person() -> None:
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MAX_BYTES
    for path in files:
        assert not PERSONAL.search(path.read_bytes()), path.name
    kept = json.loads((FOLDER / "run.json").read_text())
    assert kept["logs"]["lines"] == []
    assert {each["kind"] for each in kept["checkpoints"]["items"]} >= {"model"}
