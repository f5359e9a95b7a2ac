"""A model that is served: what is refused before a request, what is asked, and that nothing is left
behind.
"""

import json
from datetime import UTC, datetime

import pytest
from sdk.http_parts import error, reply
from sdk.rest_server import API_KEY

import tinkerscript
from tinkerscript import (
    ClientClosed,
    Conflict,
    InvalidRequest,
    SessionFailed,
    TunedModel,
    serving,
)
from tinkerscript.wire.server import ServerView
from tinkerscript.wire.serving import ServingEndpoint
from tinkerscript.wire.sessions import SessionView
from tinkerscript.wire.version import VERSION


@pytest.fixture
def made(server, session) -> SessionView:
    """What the server says it started."""
    server.view = ServerView(version=VERSION, minimum_client=VERSION, capabilities=["serving"])
    view = server.sessions[session.id]
    server.fail("POST /v1/serving", answer=reply(201, view))
    endpoint = ServingEndpoint(
        session_id=view.id, base_url=f"{server.url}/openai/v1", anthropic_base_url=f"{server.url}/openai",
        api_key="tml-ep-x", model="ckp_1", expires_at=datetime(2030, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    server.fail("POST /v1/sessions/.*/serving-keys", answer=reply(201, endpoint))
    return view


def serve(server, model, **options):
    return tinkerscript.serve(model, base_url=server.url, api_key=API_KEY, **options)


def test_a_downloaded_model_is_served_by_its_checkpoint_and_unpacks(server, made, tmp_path) -> None:
    with serve(server, TunedModel(tmp_path, 8, "ckp_1"), name="mine", idle_suspend_s=30) as served:
        base_url, api_key = served
    assert (base_url, api_key, served.model) == (f"{server.url}/openai/v1", "tml-ep-x", "ckp_1")
    [asked] = server.seen("POST /v1/serving")
    sent = json.loads(asked.body)
    assert (sent["model"], sent["name"], sent["idle_suspend_s"]) == ("ckp_1", "mine", 30)
    assert len(server.seen(f"POST /v1/sessions/{made.id}/stop")) == 1, (
        "the block ends what it started"
    )


@pytest.mark.parametrize(
    "wrong",
    [{"grpo_n": 4}, {"idle_suspend_s": 1}, {"budget": {"steps": 3}}, {"expires_in_days": 0}],
)
def test_what_has_no_place_there_is_refused_before_a_request(server, wrong) -> None:
    with pytest.raises(InvalidRequest) as refused:
        serve(server, "SmolLM2", **wrong)
    assert next(iter(wrong)) in str(refused.value) and server.requests == []


def test_one_that_does_not_come_up_is_stopped(server, made) -> None:
    server.set_state(
        made.id, "failed", failure={"code": "engine_dead", "cause": "no memory", "hint": ""}
    )
    with pytest.raises(SessionFailed, match="no memory"):
        serve(server, "SmolLM2")
    assert len(server.seen(f"POST /v1/sessions/{made.id}/stop")) == 1


def test_a_server_that_is_away_hides_no_error_of_the_block(server, made, monkeypatch) -> None:
    monkeypatch.setattr(serving, "INTERRUPTED_TIMEOUT_S", 0.1)
    with pytest.raises(ZeroDivisionError), serve(server, "SmolLM2") as served:
        server.stop()
        raise ZeroDivisionError
    with pytest.raises(ClientClosed):
        served.status()


def test_a_refused_stop_is_told_of_and_the_connection_is_closed(server, made) -> None:
    server.fail("POST /v1/sessions/.*/stop", answer=error(409, "conflict"))
    with pytest.raises(Conflict), serve(server, "SmolLM2") as served:
        """Nothing goes wrong in here."""
    with pytest.raises(ClientClosed):
        served.status()


def test_why_it_does_not_come_up_is_told_even_if_it_cannot_be_stopped(server, made) -> None:
    server.set_state(
        made.id, "failed", failure={"code": "engine_dead", "cause": "no memory", "hint": ""}
    )
    server.fail("POST /v1/sessions/.*/stop", answer=error(409, "conflict"))
    with pytest.raises(SessionFailed, match="no memory"):
        serve(server, "SmolLM2")
