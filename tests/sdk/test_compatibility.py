"""Clients and servers of other versions: docs/compatibility.md, rule by rule."""

import json

import pytest
from sdk.http_parts import Answer

from tinkerscript import (
    IncompatibleServer,
    NotFound,
    SessionConfig,
    TinkerScript,
    WorkflowOutput,
    __version__,
)
from tinkerscript.connection import connecting
from tinkerscript.wire.server import ServerView


@pytest.fixture(autouse=True)
def no_server_was_warned_about(monkeypatch):
    monkeypatch.setattr(connecting, "warned", set())


def says(server, version, minimum_client="0.2.0"):
    server.view = ServerView(version=version, minimum_client=minimum_client, capabilities=[])


def test_client_sends_its_version(server, session):
    assert {request.headers["user-agent"] for request in server.requests} == {
        f"tinkerscript/{__version__}"
    }


@pytest.mark.parametrize("version", [__version__, "0.2.9", "0.9.0", "1.0.0", "7.3.1"])
def test_server_as_new_or_newer_that_still_serves_this_client_is_used(
    server, connect, caplog, version
):
    says(server, version)
    connect()
    assert not [r for r in caplog.records if r.name == "tinkerscript"]


def test_older_server_is_used_with_one_warning(server, connect, caplog, monkeypatch):
    monkeypatch.setattr(connecting, "MINIMUM_SERVER", "0.3.0")
    says(server, "0.2.9")
    connect().begin_episode()
    connect()
    [warning] = [r.getMessage() for r in caplog.records if r.name == "tinkerscript"]
    assert "is version 0.2.9" in warning
    assert "Upgrade the server" in warning


def test_server_that_no_longer_serves_this_client_is_refused_with_what_to_install(server, connect):
    says(server, "3.1.0", minimum_client="3.0.0")
    with pytest.raises(IncompatibleServer) as caught:
        connect()
    assert f"Client {__version__} cannot work" in str(caught.value)
    assert "pip install 'tinkerscript>=3.0.0'" in str(caught.value)
    assert server.sessions == {}


def test_server_of_an_older_major_version_is_refused_with_what_to_install(
    server, connect, monkeypatch
):
    monkeypatch.setattr(connecting, "MINIMUM_SERVER", "2.0.0")
    says(server, "1.4.0")
    with pytest.raises(IncompatibleServer, match=r"pip install 'tinkerscript==1\.\*'"):
        connect()


def test_address_of_something_else_is_not_taken_for_an_old_server(server, connect):
    server.fail("GET /v1/server", answer=Answer(404, b"<html>nothing here</html>"))
    with pytest.raises(NotFound, match="nothing here"):
        connect()


def test_only_what_was_set_is_sent(server, connect):
    connect(grpo_n=4).begin_episode(task="t")
    bodies = [json.loads(r.body) for r in server.requests if r.method == "POST"]
    assert bodies == [{"base_model": "SmolLM2", "config": {"grpo_n": 4}}, {"task": "t"}]
    connect()
    assert json.loads(server.seen("POST /v1/sessions")[-1].body) == {"base_model": "SmolLM2"}


def test_option_that_equals_its_default_is_sent_when_it_was_given(server, connect):
    seed = SessionConfig.model_fields["seed"].default
    connect(seed=seed, priority=0, budget={"steps": 5})
    sent = json.loads(server.seen("POST /v1/sessions")[0].body)
    assert sent == {
        "base_model": "SmolLM2",
        "config": {"seed": seed},
        "priority": 0,
        "budget": {"steps": 5},
    }


@pytest.mark.parametrize("output", [WorkflowOutput(reward=0.5), {"reward": 0.5}, 0.5])
def test_of_an_output_only_what_was_set_is_sent(server, connect, output):
    session = connect()
    session.begin_episode(task="t")
    session.end_episode(output)
    [ended] = [r.body for r in server.requests if r.path.endswith("/end")]
    assert json.loads(ended)["output"] == {"reward": 0.5}


def test_parts_of_a_newer_servers_responses_that_are_unknown_are_left_out(server, session):
    """Also in what is refused in a request, such as a session's options."""
    newer = session.status().model_dump(mode="json")
    for part in (newer, newer["config"], newer["budget"], newer["accounting"]):
        part["of_a_later_version"] = [1]
    server.fail("GET /v1/sessions/[^/]+", answer=Answer(200, json.dumps(newer).encode()))
    assert session.status().config == session.config


def test_version_is_that_of_the_installed_package():
    assert TinkerScript.__module__.startswith("tinkerscript")
    assert __version__.count(".") == 2
