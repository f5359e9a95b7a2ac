"""session.rescore: a dict or a function, in requests of bounded size, and nothing refused in
silence.
"""

import json
import threading

import pytest
from sdk.http_parts import Answer
from sdk.rest_server import RestServer, reply

from tinkerscript import InvalidReward, WaitTimeout
from tinkerscript.rollouts import attempts
from tinkerscript.sessions import changes
from tinkerscript.wire.episodes import EpisodesRescored, EpisodeView, RewardChange


@pytest.fixture
def asked(server, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """The rewards of each request. Episodes whose names begin with x are refused."""
    requests: list[dict[str, float]] = []

    def answer(self: RestServer, request, session_id: str) -> Answer:
        requests.append(rewards := json.loads(request.body)["rewards"])
        changes = [
            RewardChange(seq=1, episode_id=name, was=0.0, reward=reward, at=1.0)
            for name, reward in rewards.items()
            if name[0] != "x"
        ]
        refused = {name: "it is open" for name in rewards if name[0] == "x"}
        return reply(200, EpisodesRescored(changes=changes, unchanged=[], refused=refused))

    from sdk import rest_server

    monkeypatch.setitem(rest_server.ROUTES, rf"POST {rest_server.S}/rescore", answer)
    monkeypatch.setattr(changes, "MAX_RESCORED", 2)
    return requests


def test_rewards_are_sent_in_parts_and_what_is_refused_is_said(session, asked, said) -> None:
    done = session.rescore({"a": 1, "xb": 0.5, "c": 0})
    assert asked == [{"a": 1.0, "xb": 0.5}, {"c": 0.0}]
    assert [change.episode_id for change in done.changes] == ["a", "c"] and done.refused == {
        "xb": "it is open"
    }
    assert said() == ["1 episodes keep their reward; xb: it is open."]


def test_a_wrong_reward_is_refused_before_anything_is_sent(session, asked) -> None:
    for wrong in (float("nan"), "much", None):
        with pytest.raises(InvalidReward):
            session.rescore({"a": 1.0, "b": 1.0, "c": wrong})
    assert asked == [] and session.rescore({}).changes == []


def test_a_function_of_the_users_that_hangs_is_named_and_nothing_is_sent(
    session, server, asked, monkeypatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(changes, "REWARD_TIMEOUT_S", 0.05)
    monkeypatch.setattr(attempts, "NAME_TIMEOUT_S", 0.05)
    with session.begin_episode(task="t") as episode:
        episode.end(1.0)
    waiting = EpisodeView.model_validate_json(server.episodes[episode.id].model_dump_json())
    monkeypatch.setattr(changes, "_waiting", lambda session: iter([waiting]))
    with pytest.raises(WaitTimeout, match="^rewards"):
        session.rescore(lambda episode: over.wait(60))
    with pytest.raises(WaitTimeout, match=r"^task_name\('b'\)"):
        session.rollouts(
            lambda task, episode: 1.0,
            ["a", "b"],
            task_name=lambda task: task if task == "a" else over.wait(60),
        )
    over.set()
    assert asked == []
    with pytest.raises(ZeroDivisionError):
        session.rescore(lambda episode: 1 / 0)
    assert session.rescore(lambda episode: None).changes == []
