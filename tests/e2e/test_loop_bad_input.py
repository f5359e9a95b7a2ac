"""Bad input, through the SDK against the real server: a clear error that says what to do next, and
nothing lost.
"""

from collections.abc import Iterator

import httpx
import openai
import pytest
from e2e.loop_server import BASE_MODEL, LoopServer
from e2e.playing import execute_agent

from tinkerscript import (
    AuthenticationError,
    EmptyEpisode,
    Episode,
    EpisodeClosed,
    InvalidRequest,
    InvalidReward,
    TinkerScript,
    UnknownBaseModel,
    UnknownOption,
)


@pytest.fixture(scope="module")
def remote(loop_server: LoopServer) -> Iterator[TinkerScript]:
    """One session for all: what is refused must not harm what comes after it."""
    with loop_server.session(max_context_length=64) as remote:
        yield remote
        accounting = remote.accounting()
        assert accounting.balances and accounting.begun > 0


@pytest.fixture
def episode(remote: TinkerScript) -> Iterator[Episode]:
    """An open episode without a call. It is as good as new after what the test did to it, or ended
    by it.
    """
    episode = remote.begin_episode(task="bad input")
    yield episode
    if episode.is_open:
        assert episode.end(execute_agent("rain", episode)).state == "completed"


def post(server: LoopServer, path: str, **body: object) -> httpx.Response:
    """What a client without our SDK sends."""
    headers = {"Authorization": f"Bearer {server.api_key}", "Content-Type": "application/json"}
    content = body.pop("raw", None)
    return httpx.post(
        f"{server.url}{path}",
        headers=headers,
        content=content,
        json=None if content else body,
        timeout=90,
    )


def test_an_unknown_base_model_is_refused_with_the_known_ones(loop_server: LoopServer) -> None:
    with pytest.raises(UnknownBaseModel, match="no-such-model") as refused:
        TinkerScript("no-such-model", base_url=loop_server.url, api_key=loop_server.api_key)
    assert refused.value.details["known"] == [BASE_MODEL] and BASE_MODEL in str(refused.value)


def test_an_unknown_option_is_named_here_and_on_the_server(loop_server: LoopServer) -> None:
    with pytest.raises(UnknownOption, match="learning_rat.*Did you mean learning_rate"):
        loop_server.session(learning_rat=1e-5)
    answer = post(loop_server, "/v1/sessions", base_model=BASE_MODEL, config={"learning_rat": 1e-5})
    assert answer.status_code == 400 and "learning_rat" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("learning_rate", 0.5), ("learning_rate", -1e-5), ("grpo_n", 1), ("grpo_n", 100_000)],
)
def test_an_option_out_of_bounds_is_named_here_and_on_the_server(
    loop_server: LoopServer, option, value
) -> None:
    with pytest.raises(InvalidRequest, match=option):
        loop_server.session(**{option: value})
    answer = post(loop_server, "/v1/sessions", base_model=BASE_MODEL, config={option: value})
    assert answer.status_code == 400 and option in answer.json()["error"]["message"]


def test_no_refused_session_was_made(loop_server: LoopServer, remote: TinkerScript) -> None:
    live = [
        view
        for view in loop_server.get("/v1/sessions")["items"]
        if view["state"] not in {"stopped", "cancelled"}
    ]
    assert [view["id"] for view in live] == [remote.id]


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "x", None, [1.0]])
def test_a_reward_that_is_no_finite_number_is_refused_and_the_episode_lives_on(
    episode: Episode, reward
) -> None:
    with pytest.raises(InvalidReward, match="abort_episode"):
        episode.end({"reward": reward})
    assert episode.is_open


@pytest.mark.parametrize(
    "raw",
    ['{"output": {"reward": NaN}}', '{"output": {"reward": 1e999}}', '{"output": {"reward": "x"}}'],
)
def test_the_server_refuses_such_a_reward_too(
    loop_server: LoopServer, remote: TinkerScript, episode: Episode, raw: str
) -> None:
    session = remote.id
    answer = post(loop_server, f"/v1/sessions/{session}/episodes/{episode.id}/end", raw=raw)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] in {"invalid_reward", "invalid_request"}


def test_an_episode_ends_once_and_the_same_end_again_gets_the_same_response(
    episode: Episode,
) -> None:
    output = execute_agent("rain", episode)
    view = episode.end(output)
    assert episode.end(output) == view
    with pytest.raises(EpisodeClosed, match="over already"):
        episode.end(output.reward + 1)


def test_an_end_without_a_call_is_refused_and_the_episode_lives_on(episode: Episode) -> None:
    with pytest.raises(EmptyEpisode, match="api_key"):
        episode.end(1.0)
    assert episode.is_open


def test_the_key_of_an_ended_episode_is_gone(episode: Episode) -> None:
    episode.end(execute_agent("rain", episode))
    with pytest.raises(openai.APIStatusError) as refused:
        execute_agent("rain", episode)
    assert refused.value.status_code == 410 and "new episode" in str(refused.value)


def test_a_prompt_over_the_context_length_is_refused_as_openai_does_and_the_episode_lives_on(
    episode: Episode,
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        execute_agent("rain " * 100, episode)
    assert refused.value.code == "context_length_exceeded" and "64 tokens" in str(refused.value)


def test_a_wrong_and_a_revoked_key_name_where_to_make_one(loop_server: LoopServer) -> None:
    made = post(loop_server, "/v1/keys", name="to be revoked").json()
    httpx.delete(
        f"{loop_server.url}/v1/keys/{made['id']}",
        headers={"Authorization": f"Bearer {loop_server.api_key}"},
        timeout=90,
    ).raise_for_status()
    for key in ("tml-wrong", made["secret"]):
        with pytest.raises(AuthenticationError) as refused:
            TinkerScript(BASE_MODEL, base_url=loop_server.url, api_key=key)
        assert refused.value.status == 401 and loop_server.url in refused.value.hint, refused.value
