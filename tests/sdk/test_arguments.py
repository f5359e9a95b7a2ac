"""Arguments of the client's methods: one of a wrong kind is refused by its name, before anything is
sent.
"""

import asyncio
import inspect
import re

import pytest
from sdk.http_parts import Answer
from sdk.rest_server import API_KEY

from tinkerscript import (
    AsyncEpisode,
    AsyncTinkerScript,
    AuthenticationError,
    Budget,
    Episode,
    InvalidRequest,
    Session,
    SessionConfig,
    TinkerScript,
    UnexpectedAnswer,
    WorkflowOutput,
)

NOWHERE = "http://127.0.0.1:9"  # a check that comes after the first connection would end otherwise
WRONG = [
    ("base_url", 8000),
    ("api_key", b"tml-x"),
    ("session_id", 5),
    ("session_id", ""),
    ("wait_timeout_s", "5"),
    ("wait_timeout_s", None),
    ("wait_timeout_s", -1),
    ("begin_timeout_s", "5"),
    ("begin_timeout_s", float("nan")),
    ("retry_timeout_s", None),
    ("timeout_s", "5"),
    ("timeout_s", 0),
    ("timeout_s", True),
    ("proxy", 5),
    ("ca_file", 5),
    ("on_progress", 5),
]


def agent(task, episode):
    return 1.0


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_an_option_of_the_client_is_refused_by_its_name(name, value):
    given = {"base_url": NOWHERE, "api_key": API_KEY, "retry_timeout_s": 0.0, name: value}
    with pytest.raises(InvalidRequest, match=f"^{name} must be "):
        TinkerScript("m", **given)
    with pytest.raises(InvalidRequest, match=f"^{name} must be "):
        AsyncTinkerScript("m", **given)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("timeout_s", lambda s: s.flush("5")),
        ("timeout_s", lambda s: s.wait_ready("5")),
        ("timeout_s", lambda s: s.save_checkpoint(timeout_s=None)),
        ("timeout_s", lambda s: s.download_tuned_model("x", timeout_s="5")),
        ("timeout_s", lambda s: s.close(timeout_s="5")),
        ("path", lambda s: s.download_checkpoint("ckp_1", 5)),
        ("path", lambda s: s.download_batch(1, None)),
        ("kinds", lambda s: list(s.events(kinds="metric"))),
        ("kinds", lambda s: list(s.events(kinds=["metrics"]))),
        ("episode", lambda s: s.end_episode(1.0, episode="epi_1")),
        ("episode", lambda s: s.abort_episode(episode="epi_1")),
        ("reason", lambda s: s.begin_episode().abandon(5)),
        ("workers", lambda s: s.rollouts(agent, ["a"], workers="4")),
        ("workers", lambda s: s.rollouts(agent, ["a"], workers=2.5)),
        ("workers", lambda s: s.rollouts(agent, ["a"], workers=0)),
        ("epochs", lambda s: s.rollouts(agent, ["a"], epochs="2")),
        ("retries", lambda s: s.rollouts(agent, ["a"], retries=-1)),
        ("attempts", lambda s: s.evaluate(agent, ["a"], attempts="2")),
        ("cancelled", lambda s: s.rollouts(agent, ["a"], cancelled=True)),
        ("task_name", lambda s: s.rollouts(agent, ["a"], task_name=5)),
        (r"task_name\('a'\)", lambda s: s.rollouts(agent, ["a"], task_name=lambda task: 5)),
    ],
)
def test_an_argument_of_a_method_is_refused_by_its_name(session, name, call):
    with pytest.raises(InvalidRequest, match=f"^{name} must be "):
        call(session)
    assert not session.closed


def test_the_exception_of_an_agent_is_a_reason(server, session):
    session.begin_episode()
    session.abort_episode(ValueError("no route to Paris"))
    assert [e.reason for e in server.episodes.values()] == ["ValueError: no route to Paris"]


def test_a_wrong_wait_costs_no_session(server):
    with pytest.raises(InvalidRequest):
        asyncio.run(
            AsyncTinkerScript(
                "m", base_url=server.url, api_key=API_KEY, wait_timeout_s=-1
            ).__aenter__()
        )
    assert server.requests == []


@pytest.mark.parametrize("address", ["localhost:8000", "127.0.0.1:8000", "train.example.com"])
def test_an_address_without_its_scheme_is_returned_with_it(address):
    with pytest.raises(InvalidRequest, match=f"Give http://{address},"):
        TinkerScript("m", base_url=address, api_key=API_KEY)


@pytest.mark.parametrize("key", ["Bearer tml-x", "'tml-x'", '"tml-x"'])
def test_a_key_with_what_stands_around_it_is_refused(key):
    with pytest.raises(AuthenticationError, match="without `Bearer` or quotes"):
        TinkerScript("m", base_url=NOWHERE, api_key=key)


def test_a_page_in_place_of_a_server_is_not_taken_for_an_old_server(server, connect):
    server.fail("GET /v1/server", answer=Answer(200, b"<html>the console</html>"))
    with pytest.raises(UnexpectedAnswer, match="Check that the base URL"):
        connect()


def test_the_hint_is_about_the_option_that_is_wrong():
    with pytest.raises(InvalidRequest, match="base_model") as caught:
        TinkerScript(5, base_url=NOWHERE, api_key=API_KEY)
    assert "priority" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: TinkerScript("m", NOWHERE),
            r"too many positional arguments.*TinkerScript\(base_model, base_url=",
        ),
        (
            lambda: AsyncTinkerScript("m", NOWHERE),
            r"too many positional.*AsyncTinkerScript\(base_model, base_url=",
        ),
        (lambda: Session("ses_1"), r"'session_id'.*TinkerScript\(session_id="),
        (
            lambda: Session(NOWHERE, "ses_1"),
            r"transport must be a Transport; to attach, use TinkerScript\(session_id=",
        ),
        (lambda: Episode("3+4"), r"'begun'.*begin_episode\(\)"),
        (lambda: AsyncEpisode(), r"'episode'.*begin_episode\(\)"),
    ],
)
def test_a_constructor_says_how_it_is_called(call, said):
    with pytest.raises(InvalidRequest) as caught:
        call()
    assert re.search(said, str(caught.value))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: WorkflowOutput(1.0),
            "WorkflowOutput(reward=1.0). Its other fields are is_success, metrics,",
        ),
        (lambda: WorkflowOutput(1.0, True), "WorkflowOutput(reward=1.0)."),
        (lambda: Budget(3600), "Budget(device_s=3600). Its other fields are wall_s, steps."),
        (lambda: SessionConfig(8), "SessionConfig takes its fields by name"),
    ],
)
def test_a_message_names_the_fields_that_were_given_without_a_name(call, said):
    with pytest.raises(TypeError) as caught:
        call()
    assert said in str(caught.value)


@pytest.mark.parametrize("kind", [TinkerScript, AsyncTinkerScript, Session, Episode, AsyncEpisode])
def test_help_names_the_arguments_of_a_constructor(kind):
    assert "values" not in inspect.signature(kind).parameters
