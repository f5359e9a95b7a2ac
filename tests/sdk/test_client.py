"""Starting, attaching to, waiting for and closing a session."""

import threading
import time

import pytest
from sdk.http_parts import error, not_ready
from sdk.rest_server import API_KEY

from support.waiting import wait_until
from tinkerscript import (
    AuthenticationError,
    ClientClosed,
    InvalidRequest,
    NotFound,
    ServerUnreachable,
    SessionEnded,
    SessionFailed,
    TinkerScript,
    UnknownBaseModel,
    UnknownOption,
    WaitTimeout,
)


def test_constructor_returns_a_ready_session(server, connect):
    session = connect(name="mine", learning_rate=1e-5, grpo_n=4)
    assert session.status().state == "ready"
    assert (session.status().name, session.config.grpo_n, session.config.learning_rate) == (
        "mine",
        4,
        1e-5,
    )


def test_address_and_key_come_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("TINKERSCRIPT_BASE_URL", server.url + "/")
    monkeypatch.setenv("TINKERSCRIPT_API_KEY", f" {API_KEY}\n")
    with TinkerScript("SmolLM2") as session:
        assert session.status().base_model == "SmolLM2"


def test_unknown_option_is_named_and_the_known_listed_before_any_traffic(server, connect):
    with pytest.raises(UnknownOption) as caught:
        connect(learning_rat=1e-5)
    assert "learning_rat" in caught.value.message
    assert "Did you mean learning_rate?" in str(caught.value)
    assert "max_staleness" in caught.value.hint
    assert server.requests == []


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("oversampling", "keep_n"),
        ("over_sampling_batch_size", "keep_n"),
        ("curriculum", "dynamic_sampling"),
        ("replay_buffer_size", "max_staleness"),
        ("reward_length_norm", "length_penalty"),
        ("normalize_length", "length_penalty"),
        ("process_reward_model", "rewards_by_call"),
        ("token_level_rewards", "rewards_by_call"),
        ("rewards_per_step", "rewards_by_call"),
        ("advantage_function", "forward_backward_custom"),
        ("adv_estimator", "advantage_baseline"),
        ("loss_fn", "forward_backward_custom"),
        ("demonstrations", "cross_entropy"),
        ("ema_decay", "reference_decay"),
    ],
)
def test_an_option_of_other_trainers_is_refused_with_what_to_use(connect, option, instead):
    with pytest.raises(UnknownOption) as caught:
        connect(**{option: 1})
    assert f"For {option}: " in caught.value.hint and instead in caught.value.hint


def test_a_loss_that_is_a_function_is_refused_with_where_it_runs(server, connect):
    with pytest.raises(InvalidRequest, match="no code of yours runs in a runtime") as caught:
        connect(loss=lambda logprobs: logprobs)
    assert "forward_backward_custom" in caught.value.hint and server.requests == []


@pytest.mark.parametrize(
    "options", [{"learning_rate": 1.0}, {"grpo_n": 1}, {"loss": "magic"}, {"seed": "x"}]
)
def test_option_out_of_bounds_is_refused_before_any_traffic(server, connect, options):
    with pytest.raises(InvalidRequest) as caught:
        connect(**options)
    assert next(iter(options)) in caught.value.message
    assert server.requests == []


def test_missing_key_reports_where_to_make_one():
    with pytest.raises(AuthenticationError) as caught:
        TinkerScript("SmolLM2", base_url="http://127.0.0.1:1")
    assert "http://127.0.0.1:1/" in str(caught.value)
    assert "python manage.py create_api_key EMAIL" in str(caught.value)


@pytest.mark.parametrize("key", ["nöt-ascii", "two words", "new\nline"])
def test_key_that_no_header_can_carry_is_an_authentication_error(server, connect, key):
    with pytest.raises(AuthenticationError):
        connect(api_key=key)


def test_wrong_key_is_an_authentication_error_with_the_servers_hint(connect):
    with pytest.raises(AuthenticationError) as caught:
        connect(api_key="wrong")
    assert (caught.value.status, caught.value.request_id) == (401, "req_test")
    assert "Make one in the console." in str(caught.value)


@pytest.mark.parametrize(
    "address", ["localhost:8000", "ftp://x", "http://", "nonsense", "http://x:port"]
)
def test_malformed_address_is_refused(address):
    with pytest.raises(InvalidRequest):
        TinkerScript("SmolLM2", base_url=address, api_key="k")


@pytest.mark.parametrize("part", ["/openai/v1", "/openai/v1/", "/v1", "/console", "/keys"])
def test_a_part_of_a_server_is_refused_with_the_address_to_give(part):
    with pytest.raises(InvalidRequest, match=r"Give http://127.0.0.1:1, as TINKERSCRIPT_BASE_URL"):
        TinkerScript("SmolLM2", base_url=f"http://127.0.0.1:1{part}", api_key="k")


def test_https_to_a_server_of_http_is_told_so(server, monkeypatch):
    monkeypatch.setattr("tinkerscript.connection.connecting.FIRST_CONTACT_RETRY_S", 0.05)
    with pytest.raises(ServerUnreachable, match="http:// instead of https://"):
        TinkerScript("SmolLM2", base_url=server.url.replace("http", "https"), api_key="k")


def test_session_without_a_model_or_with_a_wrong_budget_is_told_what_to_give(connect):
    with pytest.raises(InvalidRequest, match="no base_model.*session_id to attach"):
        connect(None)
    with pytest.raises(InvalidRequest, match="`budget` has the fields device_s"):
        connect(budget={"hours": 1})


def test_unknown_base_model_lists_the_known(connect):
    with pytest.raises(UnknownBaseModel) as caught:
        connect("no-such-model")
    assert caught.value.details["known"] == ["SmolLM2"]


def test_base_model_or_session_id_is_needed(server, connect):
    with pytest.raises(InvalidRequest):
        connect(None)
    assert server.requests == []


def test_progress_of_the_start_is_reported_once_per_change(server, connect):
    server.first_state = "queued"
    heard = []

    def on_progress(state, phase, queue_position):
        heard.append((state, phase, queue_position))
        [session_id] = server.sessions
        if state == "queued":
            server.set_state(session_id, "loading", phase="loading weights", queue_position=None)
        elif state == "loading":
            server.set_state(session_id, "ready", phase="")

    connect(on_progress=on_progress)
    assert heard == [("queued", "", 2), ("loading", "loading weights", None), ("ready", "", None)]


def test_failed_start_names_code_cause_and_hint(server, connect):
    server.first_state = "loading"
    failure = {
        "code": "out_of_memory",
        "cause": "no room for the model",
        "hint": "Choose a smaller one.",
    }

    def on_progress(state, *_):
        if state == "loading":
            server.set_state(next(iter(server.sessions)), "failed", failure=failure)

    with pytest.raises(SessionFailed) as caught:
        connect(on_progress=on_progress)
    assert caught.value.failure.model_dump() == failure | {"log": []}
    assert caught.value.cause == "no room for the model"
    assert "Choose a smaller one." in str(caught.value)


def test_start_that_takes_too_long_names_the_queue_position_and_leaves_nothing_running(
    server, connect
):
    server.first_state = "queued"
    with pytest.raises(WaitTimeout) as caught:
        connect(wait_timeout_s=0.05)
    assert isinstance(caught.value, TimeoutError)
    assert "queued" in str(caught.value)
    assert "position 2 in the queue" in str(caught.value)
    assert [view.state for view in server.sessions.values()] == ["stopped"]


def test_interrupted_start_stops_the_session(server, connect):
    server.first_state = "loading"

    def on_progress(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        connect(on_progress=on_progress)
    assert [view.state for view in server.sessions.values()] == ["stopped"]


def test_attaching_uses_the_running_session(server, connect):
    first = connect()
    second = connect("SmolLM2", session_id=first.id)
    assert second.id == first.id
    assert len(server.sessions) == 1


def test_attaching_refuses_what_it_cannot_honour(server, connect):
    first = connect()
    with pytest.raises(InvalidRequest, match="grpo_n"):
        connect(None, session_id=first.id, grpo_n=4)
    with pytest.raises(InvalidRequest, match="SmolLM2"):
        connect("Other", session_id=first.id)
    with pytest.raises(NotFound):
        connect(None, session_id="ses_nobodys")
    server.set_state(first.id, "stopped")
    with pytest.raises(SessionEnded):
        connect(None, session_id=first.id)
    server.set_state(first.id, "suspended")
    assert connect(None, session_id=first.id).id == first.id


def test_failed_attach_does_not_stop_the_session(server, connect):
    first = connect()
    server.set_state(first.id, "loading")
    with pytest.raises(WaitTimeout):
        connect(None, session_id=first.id, wait_timeout_s=0.01)
    assert server.sessions[first.id].state == "loading"


def test_wrong_address_reports_it_within_the_first_contact_bound(monkeypatch):
    monkeypatch.setattr("tinkerscript.connection.connecting.FIRST_CONTACT_RETRY_S", 0.05)
    with pytest.raises(ServerUnreachable) as caught:
        TinkerScript("SmolLM2", base_url="http://127.0.0.1:1", api_key="k")
    assert "TINKERSCRIPT_BASE_URL" in str(caught.value)


def test_close_stops_waits_and_is_idempotent(server, connect):
    session = connect()
    session.begin_episode()
    session.close()
    assert server.sessions[session.id].state == "stopped"
    assert [(e.state, e.reason) for e in server.episodes.values()] == [("abandoned", "closed")]
    stops = len(server.seen("POST .*/stop"))
    session.close()
    assert len(server.seen("POST .*/stop")) == stops == 1


def test_close_waits_until_the_runtime_is_released(server, connect):
    server.stop_leads_to = "stopping"
    session = connect()
    closing = threading.Thread(target=session.close)
    closing.start()
    wait_until(lambda: server.seen("POST .*/stop"))
    assert closing.is_alive()
    server.set_state(session.id, "stopped")
    closing.join(25)
    assert not closing.is_alive()


def test_close_gives_up_waiting_at_its_bound_and_releases_the_client(server, connect):
    server.stop_leads_to = "stopping"
    session = connect()
    with pytest.raises(WaitTimeout, match="stopping"):
        session.close(timeout_s=0.05)
    assert session.closed


def test_close_without_stop_leaves_the_session_running(server, connect):
    session = connect()
    session.close(stop=False)
    assert server.sessions[session.id].state == "ready"


def test_close_of_a_failed_session_is_quiet(server, connect):
    session = connect()
    server.fail(
        "POST .*/stop",
        answer=error(409, "session_failed", details={"code": "oom", "cause": "memory"}),
    )
    session.close()
    assert session.closed


def test_close_is_bounded_when_the_server_is_gone(server, connect, monkeypatch):
    monkeypatch.setattr("tinkerscript.client.CLOSE_RETRY_S", 0.1)
    monkeypatch.setattr("tinkerscript.client.CLOSE_ABANDON_S", 0.1)
    session = connect()
    session.begin_episode()
    server.stop()
    started = time.monotonic()
    with pytest.raises(ServerUnreachable):
        session.close()
    assert time.monotonic() - started < 25, "without the bounds it would be 30 s"
    assert session.closed


def test_context_manager_closes_and_keeps_the_loops_own_exception(server, connect, monkeypatch):
    monkeypatch.setattr("tinkerscript.client.CLOSE_RETRY_S", 0.05)
    with connect() as session:
        pass
    assert server.sessions[session.id].state == "stopped"
    with pytest.raises(ZeroDivisionError), connect():
        server.stop()
        raise ZeroDivisionError


def test_everything_after_close_is_a_typed_error(session):
    episode = session.begin_episode()
    session.close()
    for call in (
        session.status,
        session.begin_episode,
        session.download_tuned_model,
        lambda: list(session.events()),
    ):
        with pytest.raises(ClientClosed):
            call()
    assert not episode.is_open


def test_close_wakes_a_begin_that_waits(server, session):
    server.fail("POST .*/episodes", times=10_000, answer=not_ready())
    caught = []

    def begin():
        try:
            session.begin_episode()
        except ClientClosed as closed:
            caught.append(closed)

    waiting = threading.Thread(target=begin)
    waiting.start()
    wait_until(lambda: server.seen("POST .*/episodes"))
    session.close()
    waiting.join(25)
    assert len(caught) == 1


def test_proxies_of_the_environment_do_not_get_loopback_traffic(server, connect, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert connect().status().state == "ready"
