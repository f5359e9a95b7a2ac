"""One error body, whatever goes wrong and wherever."""

import json

import pytest
from django.conf import settings
from django.test import Client

from api.views import sessions
from console.errors import StorageUnavailable
from console.sessions import selectors
from console.sessions.models import Session
from support import factories
from tinkerscript.wire.account import Scope
from tinkerscript.wire.errors import ErrorBody


def error_of(answer, status: int, code: str) -> ErrorBody:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/json"
    body = ErrorBody.model_validate_json(answer.content)
    assert body.error.code == code
    assert body.request_id
    return body


def fields_of(answer, code: str = "invalid_request") -> dict[str, str]:
    details = error_of(answer, 400, code).error.details
    return {entry["field"]: entry["problem"] for entry in details["fields"]}


@pytest.fixture
def client(api_key: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {api_key}"}, raise_request_exception=False)


def post(client: Client, path: str, body: bytes | str):
    return client.generic("POST", f"/v1{path}", data=body, content_type="application/json")


def test_unknown_and_bad_fields_are_named(client) -> None:
    body = {
        "base_model": "m",
        "colour": 1,
        "config": {"grpo_m": 8, "grpo_n": 1, "learning_rate": 5},
    }
    fields = fields_of(post(client, "/sessions", json.dumps(body)))
    assert set(fields) == {"colour", "config.grpo_m", "config.grpo_n", "config.learning_rate"}
    assert fields["colour"] == fields["config.grpo_m"] == "unknown field"
    assert "2" in fields["config.grpo_n"]


def test_an_option_of_other_trainers_is_refused_with_what_to_use(client) -> None:
    body = {"base_model": "m", "config": {"demonstrations": 1}}
    answer = post(client, "/sessions", json.dumps(body)).json()
    assert "For demonstrations: " in answer["error"]["hint"]


def test_an_unknown_base_model_lists_the_known_ones(client) -> None:
    body = error_of(
        post(client, "/sessions", '{"base_model": "nothing"}'), 400, "unknown_base_model"
    )
    assert "SmolLM2-135M-Instruct" in body.error.details["known"]


def test_an_unknown_query_parameter_is_named(client) -> None:
    assert fields_of(client.get("/v1/sessions?limt=3")) == {"limt": "unknown field"}
    assert fields_of(client.get("/v1/sessions/ses_1/events?from=3")) == {"from": "unknown field"}
    assert fields_of(post(client, "/sessions/ses_1/stop?session_id=ses_2", "")) == {
        "session_id": "unknown field"
    }


def test_a_query_parameter_that_is_given_twice_is_named(client) -> None:
    assert fields_of(client.get("/v1/sessions?limit=3&limit=4")) == {
        "limit": "given more than once"
    }
    assert client.get("/v1/sessions?state=ready&state=queued").status_code == 200, (
        "a list is given so"
    )


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "limit=", "cursor=nothing"])
def test_a_bad_page_is_refused(query, client) -> None:
    error_of(client.get(f"/v1/sessions?{query}"), 400, "invalid_request")


@pytest.mark.parametrize(
    "query",
    ["after=-1", "after=99999999999999999999", "wait_s=21", "wait_s=nan", "kind=x", "limit=0"],
)
def test_a_bad_look_at_the_record_is_refused(query, client) -> None:
    name = query.partition("=")[0]
    named = {
        field.partition(".")[0]
        for field in fields_of(client.get(f"/v1/sessions/ses_1/events?{query}"))
    }
    assert named == {name}  # with its place, "kind.0", where a parameter may be repeated


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"\xff\xfe",
        b'{"base_model": "\xff"}',
        b"[" * 100_000,
        b"9" * 5000,
        b"NaN",
    ],
)
def test_a_body_that_is_no_json_object_is_refused(body, client) -> None:
    assert fields_of(post(client, "/sessions", body))


def test_text_that_is_no_text_is_refused_by_field(client) -> None:
    assert set(fields_of(post(client, "/sessions", rb'{"base_model": "m", "name": "\ud800"}'))) == {
        "name"
    }


@pytest.mark.parametrize(
    "reward", ["NaN", "Infinity", "-Infinity", "1e999", '"high"', "null", "[]"]
)
def test_a_reward_is_a_finite_number(reward, client) -> None:
    answer = post(
        client, "/sessions/ses_1/episodes/ep_1/end", f'{{"output": {{"reward": {reward}}}}}'
    )
    assert set(fields_of(answer, "invalid_reward")) == {"output.reward"}


def test_nan_is_refused_wherever_it_hides(client) -> None:
    body = '{"output": {"reward": 1.0, "metadata": {"deep": [1, {"x": NaN}]}}}'
    assert set(fields_of(post(client, "/sessions/ses_1/episodes/ep_1/end", body))) == {
        "output.metadata.deep.1.x"
    }


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_a_method_that_a_path_does_not_take(method, client) -> None:
    answer = client.generic(method, "/v1/sessions")
    assert answer.status_code == 405
    assert answer["Allow"] == "GET, POST"
    if method != "HEAD":
        error_of(answer, 405, "method_not_allowed")
    error_of(client.post("/v1/sessions/ses_1/events"), 405, "method_not_allowed")


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/", "/v1/nothing", "/v1/sessions/", "/v1/sessions/a/b", "/ws/x", "/openai/x"],
)
def test_a_path_that_is_not_there(path, client) -> None:
    error_of(client.get(path), 404, "not_found")
    error_of(client.post(path), 404, "not_found")


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/chat/completions", "/console/v1/messages"]
)
def test_an_agent_with_the_servers_address_as_base_url_is_given_the_right_one(path) -> None:
    """Its key is no cookie: the answer is no page about forgery, and its client shows nothing but
    the message.
    """
    client = Client(headers={"Authorization": "Bearer tml-ep-any"}, enforce_csrf_checks=True)
    answer = client.post(path, "{}", content_type="application/json")
    assert f"{settings.PUBLIC_URL}/openai/v1" in error_of(answer, 404, "not_found").error.message


@pytest.mark.parametrize("identifier", ["%00", "%F0%9F%98%80", "..", "a" * 3000, "ses_1'--"])
def test_an_odd_id_is_just_not_there(identifier, client) -> None:
    error_of(client.get(f"/v1/sessions/{identifier}"), 404, "not_found")


def test_a_character_that_no_database_keeps_is_refused_where_it_stands(client) -> None:
    error_of(client.post("/v1/sessions/%00/stop"), 404, "not_found")
    error = error_of(client.get("/v1/sessions?name=a%00b"), 400, "invalid_request")
    assert error.error.details["fields"][0]["field"] == "name"
    body = {"base_model": "SmolLM2-135M-Instruct", "name": "a\0b"}
    error = error_of(
        client.post("/v1/sessions", body, content_type="application/json"), 400, "invalid_request"
    )
    assert error.error.details["fields"][0]["field"] == "name"


def test_our_own_bug_is_a_500_with_an_id_that_the_log_has(client, monkeypatch, caplog) -> None:
    def broken(**_):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(selectors, "session_list", broken)
    answer = client.get("/v1/sessions", headers={"X-Request-Id": "mine-1"})
    body = error_of(answer, 500, "internal")
    assert body.request_id == answer["X-Request-Id"] == "mine-1"
    assert "secret detail" not in answer.content.decode()
    assert [
        record.request_id for record in caplog.records if "secret detail" in (record.exc_text or "")
    ] == ["mine-1"]
    assert [record.levelname for record in caplog.records if record.name == "django.request"] == [
        "ERROR"
    ]


def test_a_store_that_is_away_is_a_warning_in_the_log(client, monkeypatch, caplog) -> None:
    def away(**_):
        raise StorageUnavailable("It does not answer.")

    monkeypatch.setattr(selectors, "session_list", away)
    error_of(client.get("/v1/sessions"), 503, "storage_unavailable")
    assert [record.levelname for record in caplog.records if record.name == "django.request"] == [
        "WARNING"
    ]


def test_a_bug_outside_of_the_api_is_a_500_in_the_same_words(client, monkeypatch) -> None:
    def broken(*_, **__):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("api.pages.document_read", broken)
    error_of(client.get("/openapi.json"), 500, "internal")


def test_a_request_id_that_could_forge_a_log_line_is_replaced(client) -> None:
    answer = client.get("/v1/nothing", headers={"X-Request-Id": "a b\tc"})
    assert ErrorBody.model_validate_json(answer.content).request_id.startswith("req_")


def test_a_session_is_made_and_read_as_the_wire_defines(client) -> None:
    made = post(
        client, "/sessions", '{"base_model": "SmolLM2-135M-Instruct", "config": {"seed": 3}}'
    )
    assert made.status_code == 201, made.content
    view = sessions.SessionView.model_validate_json(made.content)
    assert (view.state, view.queue_position, view.config.seed, view.name) == (
        "queued",
        1,
        3,
        view.id,
    )
    assert client.get(f"/v1/sessions/{view.id}").json() == made.json()
    assert [item["id"] for item in client.get("/v1/sessions").json()["items"]] == [view.id]
    stopped = post(client, f"/sessions/{view.id}/stop", "").json()
    assert stopped["state"] == "cancelled"
    assert Session.objects.get().state == "cancelled"
    assert "lease" not in str(made.json())


HUGE = [2**31, 2**53, 2**63, -(2**63) - 1, 10**30]


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize(
    "field", ["progress", "policy_version", "last_activity_at", "accounting.begun"]
)
def test_a_runtimes_number_that_no_column_holds_is_refused_by_name(
    field, number, project, client_for
) -> None:
    _session, lease = factories.runtime_make(project)
    body = {"state": "ready", "progress": 1, "policy_version": 1}
    outer, _, inner = field.partition(".")
    body |= {outer: {inner: number} if inner else number}
    answer = post(client_for(lease), "/runtime/heartbeat", json.dumps(body))
    if number == 2**31 and field in ("progress", "accounting.begun", "last_activity_at"):
        assert answer.status_code == 200, answer.content
    else:
        assert field in fields_of(answer)


@pytest.mark.parametrize("number", [*HUGE, 1e300])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/runtime/uploads",
            {
                "kind": "state",
                "files": [{"path": "a", "sha256": "0" * 64, "size_bytes": 1}],
                "step": 0,
            },
        ),
        (
            "/runtime/uploads",
            {"kind": "archive", "files": [{"path": "a", "sha256": "0" * 64, "size_bytes": 0}]},
        ),
        ("/runtime/report", {"entries": [{"key": "k", "kind": "event", "data": {"name": "x"}}]}),
        ("/keys", {"name": "x"}),
        ("/sessions", {"base_model": "m"}),
    ],
)
def test_no_number_of_a_body_is_an_internal_error(
    path, body, number, project, alice, client_for
) -> None:
    _session, lease = factories.runtime_make(project)
    token = (
        lease if path.startswith("/runtime") else factories.key_make(project, alice, list(Scope))
    )
    names = ["step", "part", "episodes", "priority", "expires_in_days", "spend_cap_s", "seed"]
    bodies = [body | {name: number} for name in names]
    bodies.append(body | {"config": {"max_steps": number}, "budget": {"steps": number}})
    if "files" in body:
        bodies.append(body | {"files": [body["files"][0] | {"size_bytes": number}]})
    if "entries" in body:
        bodies.append({"entries": [body["entries"][0] | {"data": {"name": "x", "value": number}}]})
    for each in bodies:
        answer = post(client_for(token), path, json.dumps(each))
        # without a store uploads are a 503
        assert answer.status_code != 500, (each, answer.content)


def test_a_refused_option_is_told_in_our_words_alone(client: Client) -> None:
    body = json.dumps({"base_model": "any", "config": {"grpo_n": 4, "keep_n": 8}})
    problem = fields_of(post(client, "/sessions", body))["config.keep_n"]
    assert problem.startswith("must be below grpo_n")
