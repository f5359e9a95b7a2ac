"""One account cannot stall the others with a body: its size, its names and what is said about them
have bounds.
"""

import json

import pytest
from django.test import Client

from api.rest import parsing
from api.rest.parsing import MAX_DEPTH, MAX_MEMBERS, MAX_MEMBERS_LARGE
from api.routes import api
from console.errors import InvalidRequest
from console.server.request_limits import MAX_BODY_BYTES, MAX_LARGE_BODY_BYTES
from console.users.models import Project
from support import factories


@pytest.fixture
def client(client_for, api_key: str) -> Client:
    return client_for(api_key)


def post(client: Client, path: str, body: object):
    return client.post(path, json.dumps(body), content_type="application/json")


def test_only_the_routes_that_need_it_take_a_large_body() -> None:
    large = {route.path for route in api if route.limit_bytes == MAX_LARGE_BODY_BYTES}
    for route in api:
        path = "/v1" + route.path.replace("{", "").replace("}", "")
        assert (api.limit_bytes(path) == MAX_LARGE_BODY_BYTES) == (route.path in large), path
    for path in ("/v1/sessions/ses_1/episodes/ep_1/end/x", "/admin/login/", "/episodes/ep_1/end"):
        assert api.limit_bytes(path) == MAX_BODY_BYTES


def test_a_body_of_many_names_is_refused_at_once_and_briefly(client: Client) -> None:
    body = {f"name{index}": index for index in range(MAX_MEMBERS + 1)}
    answer = post(client, "/v1/sessions", body)
    assert answer.status_code == 400
    assert f"more than {MAX_MEMBERS} names" in answer.json()["error"]["message"]
    assert len(answer.content) < 1_000


def test_names_are_counted_over_all_objects_of_a_body(client: Client) -> None:
    body = {"name": [{str(index): {}} for index in range(MAX_MEMBERS)]}
    assert (
        f"more than {MAX_MEMBERS} names"
        in post(client, "/v1/sessions", body).json()["error"]["message"]
    )


def test_a_refusal_names_the_first_twenty_problems_and_counts_the_rest(client: Client) -> None:
    details = post(client, "/v1/sessions", {f"name{index}": index for index in range(50)}).json()[
        "error"
    ]["details"]
    assert len(details["fields"]) == 20
    assert details["more"] == 31  # thirty names and the base model that is missing


def test_values_inside_each_other_are_refused_past_a_depth(
    client: Client, project: Project
) -> None:
    """Where each field is known too: what takes it apart later goes down by itself."""
    session = factories.session_make(project, state="ready")
    for depth, status in ((MAX_DEPTH - 4, 201), (MAX_DEPTH + 1, 400), (900, 400)):
        row = json.loads("[" * depth + "]" * depth)
        answer = post(
            client,
            f"/v1/sessions/{session.id}/tasks",
            {"rows": [{"name": f"t{depth}", "row": row}]},
        )
        assert answer.status_code == status, (depth, answer.content)
    assert f"more than {MAX_DEPTH} deep" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body", [b'{"a": [%s0]}' % (b"[]," * 60_000), b'{"a": [%s0]}' % (b"0," * 600_000)]
)
def test_a_body_of_many_values_is_refused_before_it_is_parsed(
    body: bytes, client: Client, monkeypatch
) -> None:
    monkeypatch.setattr(parsing, "json", None)
    with pytest.raises(InvalidRequest, match="has more than"):
        parsing.json_read(body, MAX_MEMBERS)


def test_brackets_and_commas_of_texts_are_no_values(client: Client) -> None:
    text = json.dumps({"a": "[{" * 60_000 + '\\"[' * 9 + "\\"}).encode()
    assert parsing.json_read(text, MAX_MEMBERS)
    for cut in (text[:-3], text[:-4], b'"' + b'\\"' * 200_000 + b"[" * 60_000 + b"\\"):
        with pytest.raises(InvalidRequest, match="cannot be read"):
            parsing.json_read(cut, MAX_MEMBERS)


def test_a_query_of_very_many_parameters_is_refused_in_the_usual_body(client: Client) -> None:
    answer = client.get("/v1/sessions?" + "&".join(["state=ready"] * 3_000))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


def test_the_end_of_an_episode_may_have_a_reward_for_each_of_many_calls(
    client: Client, project: Project
) -> None:
    """It passes the parser: what refuses it is that its session has no runtime."""
    session = factories.session_make(project, state="stopped")
    rewards = {f"call_{index}": 1.0 for index in range(MAX_MEMBERS * 2)}
    body = {"output": {"reward": 1.0, "rewards_by_call": rewards}}
    answer = post(client, f"/v1/sessions/{session.id}/episodes/ep_1/end", body)
    assert answer.json()["error"]["code"] == "conflict", answer.content
    assert len(rewards) < MAX_MEMBERS_LARGE


def test_large_bodies_use_up_a_caller_s_allowance(
    client: Client, project: Project, monkeypatch
) -> None:
    monkeypatch.setattr("api.rest.rate_limit.WINDOW_S", 10**6)  # the test is within one
    session = factories.session_make(project, state="stopped")
    body = {"output": {"reward": 1.0, "metadata": {"x": "y" * (160 << 10)}}}
    before = int(client.get("/v1/account").headers["RateLimit-Remaining"])
    answer = post(client, f"/v1/sessions/{session.id}/episodes/ep_1/end", body)
    assert before - int(answer.headers["RateLimit-Remaining"]) == 1 + len(json.dumps(body)) // (
        16 << 10
    )
