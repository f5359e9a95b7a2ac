"""Episodes: begin, end, abandon, and whose episode is "the current one"."""

import asyncio
import contextvars
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import pytest
from sdk.http_parts import Answer, error, not_ready

from tinkerscript import (
    EmptyEpisode,
    EpisodeClosed,
    InvalidRequest,
    InvalidReward,
    NoOpenEpisode,
    NotFound,
    SessionFailed,
    WaitTimeout,
    WorkflowOutput,
)


def only(server):
    [episode] = server.episodes.values()
    return episode


def outcomes(server):
    """(task, state, reward) of every episode, sorted by task."""
    return sorted((e.task, e.state.value, e.reward) for e in server.episodes.values())


def test_episode_unpacks_as_base_url_and_api_key(server, session):
    episode = session.begin_episode(task="3+4")
    base_url, api_key = episode
    assert base_url == episode.base_url == f"{server.url}/openai/v1"
    assert api_key == episode.api_key == f"tml-ep-{episode.id}"
    assert (episode.model, episode.policy_version, episode.task) == ("SmolLM2", 3, "3+4")
    assert len(list(episode)) == 2


def test_episode_does_not_show_its_key(session):
    episode = session.begin_episode()
    assert episode.api_key not in repr(episode)


def test_begin_sends_task_eval_and_timeout(server, session):
    session.begin_episode(task="t", eval=True, timeout=30)
    [request] = server.seen("POST .*/episodes")
    assert request.body == b'{"task":"t","eval":true,"timeout_s":30.0}'


@pytest.mark.parametrize(
    "wrong", [{"task": 7}, {"task": ""}, {"task": "x" * 513}, {"timeout": -1}, {"timeout": "soon"}]
)
def test_begin_refuses_nonsense_before_any_traffic(server, session, wrong):
    with pytest.raises(InvalidRequest):
        session.begin_episode(**wrong)
    assert server.seen("POST .*/episodes") == []


@dataclass
class OwnOutput:
    reward: object
    is_success: bool = True
    metrics: dict = field(default_factory=lambda: {"turns": 3})
    private: object = object()


class NumberLike:
    def __float__(self):
        return 0.25


@pytest.mark.parametrize(
    ("said", "reward"),
    [
        (WorkflowOutput(reward=1.0, is_success=True), 1.0),
        (OwnOutput(0.5), 0.5),
        ({"reward": 0.5, "metadata": {"k": [1]}}, 0.5),
        ({"reward": 0.5, "metrics": None, "rewards_by_agent": {"a": 1}}, 0.5),
        ({"reward": 0.5, "rewards_by_call": {"chatcmpl-1": Fraction(1, 4)}}, 0.5),
        ({"reward": 0.5, "reward_parts": {"format": NumberLike(), "style": Fraction(1, 4)}}, 0.5),
        (1, 1.0),
        (-0.5, -0.5),
        (True, 1.0),
        (Decimal("0.5"), 0.5),
        (Fraction(1, 2), 0.5),
        (NumberLike(), 0.25),
    ],
)
def test_end_takes_outputs_dicts_objects_and_numbers(server, session, said, reward):
    session.begin_episode()
    view = session.end_episode(said)
    assert (view.state, view.fate, view.reward) == ("completed", "accepted", reward)
    assert only(server).reward == reward


def test_duck_typed_fields_all_arrive(server, session):
    session.begin_episode()
    session.end_episode(OwnOutput(0.5))
    [ended] = server.ended.values()
    assert ended.output == WorkflowOutput(reward=0.5, is_success=True, metrics={"turns": 3})


@pytest.mark.parametrize(
    "bad",
    [
        math.nan,
        math.inf,
        -math.inf,
        10**400,
        None,
        "1.0",
        b"1",
        object(),
        1j,
        {"reward": "good"},
        {"reward": math.nan},
        {"is_success": True},
        {"reward": 1, "rewards_by_agent": {"a": math.inf}},
        {"reward": 1, "rewards_by_call": {"chatcmpl-1": math.nan}},
        {"reward": 1, "reward_parts": {"format": math.nan}},
        {"reward_parts": {"format": 1.0}},
        OwnOutput(None),
        OwnOutput(math.nan),
        OwnOutput([1.0]),
    ],
)
def test_reward_that_is_no_finite_number_is_refused_before_any_traffic(server, session, bad):
    session.begin_episode()
    sent = len(server.requests)
    with pytest.raises(InvalidReward):
        session.end_episode(bad)
    assert len(server.requests) == sent
    assert session.end_episode(1.0).reward == 1.0  # nothing was lost


@pytest.mark.parametrize(
    "bad",
    [
        {"reward": 1, "metric": {}},
        {"reward": 1, "metrics": {"x": math.nan}},
        {"reward": 1, "metrics": 3},
        {"reward": 1, "metadata": {"x": object()}},
        {"reward": 1, "rewards_by_agent": [1]},
        {"reward": 1, "rewards_by_call": 1.0},
        {"reward": 1, "reward_parts": [1.0]},
    ],
)
def test_other_wrong_fields_are_refused_before_any_traffic(server, session, bad):
    session.begin_episode()
    sent = len(server.requests)
    with pytest.raises(InvalidRequest):
        session.end_episode(bad)
    assert len(server.requests) == sent


def test_end_without_an_open_episode_is_a_typed_error(server, session):
    with pytest.raises(NoOpenEpisode):
        session.end_episode(1.0)
    with pytest.raises(NoOpenEpisode):
        session.abort_episode()
    assert server.seen("POST .*/episodes.*") == []


def test_end_twice_with_the_same_output_returns_the_same_view(server, session):
    episode = session.begin_episode()
    first = session.end_episode(WorkflowOutput(reward=1.0))
    assert session.end_episode(WorkflowOutput(reward=1.0)) == first
    assert episode.end(1.0) == first
    assert session.end_episode(1.0, episode=episode) == first
    assert len(server.seen("POST .*/end")) == 1


def test_end_twice_with_another_output_changes_nothing(server, session):
    episode = session.begin_episode()
    session.end_episode(1.0)
    with pytest.raises(NoOpenEpisode):
        session.end_episode(0.0)
    with pytest.raises(EpisodeClosed):
        episode.end(0.0)
    assert only(server).reward == 1.0


def test_result_of_the_last_episode_is_not_repeated_after_a_begin_that_failed(server, session):
    session.begin_episode()
    session.end_episode(1.0)
    server.fail(
        "POST .*/episodes",
        answer=error(409, "session_failed", details={"code": "oom", "cause": "memory"}),
    )
    with pytest.raises(SessionFailed):
        session.begin_episode()
    with pytest.raises(NoOpenEpisode):
        session.end_episode(1.0)


def test_end_without_a_captured_call_keeps_the_episode_open(server, session):
    server.calls_per_episode = 0
    session.begin_episode()
    with pytest.raises(EmptyEpisode) as caught:
        session.end_episode(1.0)
    assert "base_url" in str(caught.value)
    server.calls_per_episode = 1
    assert session.end_episode(1.0).state == "completed"


def test_episode_that_expired_on_the_server_is_over_here_too(server, session):
    episode = session.begin_episode()
    server.close_episode(episode.id, state="expired")
    with pytest.raises(EpisodeClosed):
        session.end_episode(1.0)
    assert not episode.is_open
    del server.episodes[session.begin_episode().id]
    with pytest.raises(NotFound):
        session.end_episode(1.0)
    with pytest.raises(NoOpenEpisode):
        session.end_episode(1.0)


def test_begin_while_one_is_open_supersedes_it(server, session):
    first = session.begin_episode(task="a")
    second = session.begin_episode(task="b")
    assert (server.episodes[first.id].state, server.episodes[first.id].reason) == (
        "abandoned",
        "superseded",
    )
    assert not first.is_open
    session.end_episode(1.0)
    assert server.episodes[second.id].reward == 1.0
    with pytest.raises(EpisodeClosed):
        first.end(1.0)


def test_begin_that_fails_leaves_the_earlier_episode_open(server, session):
    session.begin_episode(task="a")
    server.fail("POST .*/episodes", answer=error(500, "internal"))
    with pytest.raises(Exception, match="made to fail"):
        session.begin_episode(task="b")
    session.end_episode(1.0)
    assert outcomes(server) == [("a", "completed", 1.0)]


def test_abort_abandons_the_current_or_the_given_episode(server, session):
    session.begin_episode(task="a")
    assert session.abort_episode().reason == "aborted"
    with pytest.raises(NoOpenEpisode):
        session.abort_episode()
    episode = session.begin_episode(task="b")
    assert session.abort_episode("no luck", episode=episode).reason == "no luck"
    with pytest.raises(EpisodeClosed):
        episode.abandon()


def test_context_manager_abandons_on_exception_and_when_not_ended(server, session):
    with pytest.raises(ZeroDivisionError), session.begin_episode():
        raise ZeroDivisionError
    with session.begin_episode():
        pass
    with session.begin_episode() as episode:
        episode.end(1.0)
    with session.begin_episode():
        session.end_episode(1.0)
    assert [(e.state.value, e.reason) for e in server.episodes.values()] == [
        ("abandoned", "ZeroDivisionError"),
        ("abandoned", "not_ended"),
        ("completed", None),
        ("completed", None),
    ]


def test_context_manager_keeps_the_agents_exception_when_abandoning_fails(server, session):
    server.fail("POST .*/abandon", answer=error(500, "internal"))
    with pytest.raises(ZeroDivisionError), session.begin_episode():
        raise ZeroDivisionError


def test_begin_waits_while_the_session_is_not_ready_under_one_key(server, session):
    server.fail("POST .*/episodes", times=3, answer=not_ready("loading"))
    session.begin_episode()
    keys = [request.key for request in server.seen("POST .*/episodes")]
    assert len(keys) == 4
    assert len(set(keys)) == 1


def test_an_erasure_that_takes_long_is_asked_for_again(server, session):
    server.fail("DELETE .*/episodes/ep_1", times=2, answer=not_ready("ready"))
    server.fail("DELETE .*/episodes/ep_1", answer=Answer(204, b""))
    session.episode_erase("ep_1")
    assert len(server.seen("DELETE .*/episodes/ep_1")) == 3


def test_begin_that_waits_too_long_names_state_and_queue_position(server, connect):
    session = connect(begin_timeout_s=0.3)
    server.fail("POST .*/episodes", times=10_000, answer=not_ready("queued", 3))
    with pytest.raises(WaitTimeout) as caught:
        session.begin_episode()
    assert isinstance(caught.value, TimeoutError)
    assert "state: queued, position 3" in str(caught.value)
    assert (caught.value.details["state"], caught.value.details["queue_position"]) == ("queued", 3)


def test_begin_that_waits_too_long_asks_for_the_state_when_it_is_not_known(server, connect):
    session = connect(begin_timeout_s=0.05)
    server.fail(
        "POST .*/episodes",
        times=10_000,
        answer=error(503, "session_not_ready", "strictly on-policy"),
    )
    with pytest.raises(WaitTimeout, match="state: ready"):
        session.begin_episode()


def test_end_waits_for_a_runtime_that_restarts_under_one_key(server, session):
    session.begin_episode()
    server.fail("POST .*/end", times=2, answer=not_ready("provisioning"))
    assert session.end_episode(1.0).state == "completed"
    assert len({request.key for request in server.seen("POST .*/end")}) == 1


def test_threads_of_a_pool_each_have_their_own_episode(server, session):
    together = threading.Barrier(16)

    def rollout(number):
        session.begin_episode(task=f"{number:03}")
        together.wait(25)
        return session.end_episode(float(number)).reward

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(rollout, range(64))) == [float(n) for n in range(64)]
    assert outcomes(server) == [(f"{n:03}", "completed", float(n)) for n in range(64)]


def test_asyncio_tasks_each_have_their_own_episode(server, session):
    async def rollout(number, together):
        session.begin_episode(task=f"{number:03}")
        await together.wait()
        return session.end_episode(float(number)).reward

    async def main():
        together = asyncio.Barrier(16)
        return await asyncio.gather(*(rollout(n, together) for n in range(16)))

    assert asyncio.run(main()) == [float(n) for n in range(16)]
    assert outcomes(server) == [(f"{n:03}", "completed", float(n)) for n in range(16)]


@pytest.mark.parametrize("how", ["to_thread", "run_in_executor"])
def test_rollouts_that_asyncio_sends_to_threads_each_have_their_own_episode(server, session, how):
    together = threading.Barrier(16)

    def rollout(number):
        session.begin_episode(task=f"{number:03}")
        together.wait(25)
        return session.end_episode(float(number)).reward

    async def main():
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(16) as pool:
            loop.set_default_executor(pool)
            session.begin_episode(task="outer")
            if how == "to_thread":
                rewards = await asyncio.gather(*(asyncio.to_thread(rollout, n) for n in range(16)))
            else:
                rewards = await asyncio.gather(
                    *(loop.run_in_executor(None, rollout, n) for n in range(16))
                )
            session.end_episode(-1.0)
            return rewards

    assert asyncio.run(main()) == [float(n) for n in range(16)]
    assert outcomes(server) == [
        *((f"{n:03}", "completed", float(n)) for n in range(16)),
        ("outer", "completed", -1.0),
    ]


def test_child_task_neither_ends_nor_supersedes_its_parents_episode(server, session):
    async def child():
        with pytest.raises(NoOpenEpisode):
            session.end_episode(0.0)
        session.begin_episode(task="child")
        await asyncio.sleep(0)
        session.end_episode(0.5)

    async def main():
        session.begin_episode(task="parent")
        await asyncio.create_task(child())
        await asyncio.wait_for(child(), 25)
        await asyncio.gather(child(), child())
        session.end_episode(1.0)

    session.begin_episode(task="outside")
    asyncio.run(main())
    session.end_episode(2.0)
    assert outcomes(server) == [
        *[("child", "completed", 0.5)] * 4,
        ("outside", "completed", 2.0),
        ("parent", "completed", 1.0),
    ]


def test_child_thread_neither_ends_nor_supersedes_its_parents_episode(server, session):
    def child():
        with pytest.raises(NoOpenEpisode):
            session.end_episode(0.0)
        session.begin_episode(task="child")
        session.end_episode(0.5)

    session.begin_episode(task="parent")
    # what to_thread does, and what threads of later Pythons inherit
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(child).result()
        pool.submit(context.run, child).result()
    session.end_episode(1.0)
    assert outcomes(server) == [*[("child", "completed", 0.5)] * 2, ("parent", "completed", 1.0)]


def test_split_begin_and_end_over_to_thread_are_refused_not_mixed_up(server, session):
    async def rollout(number):
        episode = await asyncio.to_thread(session.begin_episode, f"{number:03}")
        with pytest.raises(NoOpenEpisode, match="episode="):
            await asyncio.to_thread(session.end_episode, -1.0)
        await asyncio.to_thread(session.end_episode, float(number), episode=episode)

    async def main():
        await asyncio.gather(*(rollout(n) for n in range(16)))

    asyncio.run(main())
    assert outcomes(server) == [(f"{n:03}", "completed", float(n)) for n in range(16)]


def test_worker_thread_reused_by_to_thread_does_not_supersede_an_earlier_rollouts_episode(
    server, session
):
    async def main():
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as pool:
            loop.set_default_executor(pool)
            first = await asyncio.to_thread(session.begin_episode, "first")
            second = await asyncio.to_thread(session.begin_episode, "second")
            first.end(1.0)
            second.end(2.0)

    asyncio.run(main())
    assert outcomes(server) == [("first", "completed", 1.0), ("second", "completed", 2.0)]


def test_two_sessions_in_one_thread_keep_their_own_episodes(server, connect):
    one, two = connect(), connect()
    one.begin_episode(task="one")
    two.begin_episode(task="two")
    one.end_episode(1.0)
    two.end_episode(2.0)
    assert outcomes(server) == [("one", "completed", 1.0), ("two", "completed", 2.0)]


def test_episode_handed_to_another_thread_can_be_ended_there(server, session):
    episode = session.begin_episode(task="a")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(session.end_episode, 1.0, episode=episode).result()
    with pytest.raises(NoOpenEpisode):
        session.end_episode(0.0)
    session.begin_episode(task="b")
    assert outcomes(server)[0] == ("a", "completed", 1.0)


def test_the_loop_of_the_readme_survives_an_agent_that_raises(server, session):
    def rollout(number):
        try:
            session.begin_episode(task=f"{number:03}")
            if number % 2:
                raise RuntimeError("the agent failed")
            session.end_episode(WorkflowOutput(reward=1.0))
            return 1.0
        except RuntimeError:
            return 0.0

    assert sum(rollout(n) for n in range(6)) == 3.0
    session.close()
    assert [e.reason for e in server.episodes.values() if e.state == "abandoned"] == [
        "superseded"
    ] * 2 + ["closed"]


def test_openai_clients_point_at_the_episode_and_past_any_proxy(server, session, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    episode = session.begin_episode()
    with episode.openai(max_retries=0) as client:
        assert (str(client.base_url), client.api_key) == (episode.base_url + "/", episode.api_key)
        client.models.list()
    [request] = server.seen("GET /openai/v1/models")
    assert request.headers["authorization"] == f"Bearer {episode.api_key}"

    async def ask():
        async with episode.async_openai(max_retries=0) as client:
            await client.models.list()

    asyncio.run(ask())
    assert len(server.seen("GET /openai/v1/models")) == 2
