"""A judge of whole groups: its scores become rewards, its failures never do."""

import asyncio
import json
import threading
from collections import Counter

import pytest
from sdk.http_parts import error
from sdk.rest_server import API_KEY

from support.judge_endpoint import judge_endpoint, shorter_is_better
from tinkerscript import (
    AsyncTinkerScript,
    InvalidRequest,
    JudgeFailed,
    LlmJudge,
    NoOpenEpisode,
    judge,
)
from tinkerscript.rollouts import judging

RUBRIC = "The shorter text is better."


def judging_by(url, **options):
    return LlmJudge(url, "key", "judge", rubric=RUBRIC, **options)


def texts(lengths):
    """An agent whose attempts at a task return texts of these lengths, one after another."""
    left = iter(lengths)
    return lambda task, episode: "x" * next(left)


def states(server):
    return Counter((episode.state.value, episode.reason) for episode in server.episodes.values())


def test_every_attempt_of_a_group_is_rewarded_by_one_judgement_even_in_one_thread(server, connect):
    session = connect(grpo_n=4, tasks_per_batch=1)
    with judge_endpoint(shorter_is_better) as (url, seen):
        llm = judging_by(url, options={"max_tokens": 200})
        report = session.rollouts(texts([1, 2, 3, 4]), ["a"], judge=llm, workers=1, progress=False)
    assert report.rewards == {"a": [0.75, 0.5, 0.25, 0.0]}
    assert [body["max_tokens"] for body in seen] == [200] and seen[0][
        "authorization"
    ] == "Bearer key"
    assert seen[0]["path"] == "/v1/chat/completions" and RUBRIC in seen[0]["messages"][0]["content"]
    names = {episode.task for episode in server.episodes.values()}
    assert len(names) == 1 and names.pop().startswith("a #")
    with pytest.raises(NoOpenEpisode):
        session.end_episode(1.0)


def test_the_record_of_an_episode_gives_its_reward_again_and_a_replay_asks_nothing(server, connect):
    session = connect(grpo_n=2, tasks_per_batch=1)
    with judge_endpoint(shorter_is_better) as (url, seen):
        llm = judging_by(url)
        session.rollouts(texts([1, 4, 3, 3]), [{"q": 1}, "b"], judge=llm, workers=1, progress=False)
    records = [end.output.metadata["judge"] for end in server.ended.values()]
    rewards = [end.output.reward for end in server.ended.values()]
    assert [judge.reward_of(record) for record in records] == rewards == [0.75, 0.0, 0.0, 0.0]
    assert [(record["candidate"], record["of"]) for record in records] == [
        (1, 2),
        (2, 2),
        (1, 1),
        (1, 1),
    ]
    kept = {record["asked"]: record["answer"] for record in records}
    again = judging_by(url, answers=kept)  # the endpoint is gone
    assert [output.reward for output in again({"q": 1}, ["x", "xxxx"])] == [0.75, 0.0]
    assert (again.requests, len(seen)) == (0, 2)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("I like them all.", "not the JSON"),
        ('{"scores": 3}', "not the JSON"),
        ('{"scores": [{"candidate": 1, "score": 1}]}', "left out a candidate"),
        (
            '{"scores": [{"candidate": 1, "score": 1}, {"candidate": 1, "score": 0}]}',
            "a candidate twice",
        ),
        (
            '{"scores": [{"candidate": 1, "score": 1}, {"candidate": 3, "score": 0}]}',
            "that there is not",
        ),
        (
            '{"scores": [{"candidate": 1, "score": 1}, {"candidate": 2, "score": "0"}]}',
            "not a number from 0 to 1",
        ),
        (
            '{"scores": [{"candidate": 1, "score": 1}, {"candidate": 2, "score": NaN}]}',
            "not a number from 0 to 1",
        ),
        (None, "no text"),
        (b"busy", "no chat completion"),
        (408, "HTTP 408"),
        (500, "HTTP 500"),
        (503, "HTTP 503"),
        (429, "HTTP 429"),
    ],
)
def test_nonsense_is_asked_again_counted_by_name_and_no_reward(server, connect, answer, said):
    session = connect(grpo_n=2, tasks_per_batch=1)
    with judge_endpoint(lambda messages: answer) as (url, seen):
        llm = judging_by(url, tries=2)
        report = session.rollouts(texts([1, 2]), ["a"], judge=llm, progress=False)
    assert len(seen) == 2 and [(said in fault, times) for fault, times in llm.faults.items()] == [
        (True, 2)
    ]
    assert report.count == 0 and {said in failure.kind for failure in report.failures} == {True}
    assert states(server) == {("abandoned", "JudgeFailed"): 2}


def test_an_answer_that_is_right_at_the_second_try_is_used(server, connect):
    answers = iter([429, "nonsense"])
    session = connect(grpo_n=2, tasks_per_batch=1)
    with judge_endpoint(lambda messages: next(answers, None) or shorter_is_better(messages)) as (
        url,
        _,
    ):
        llm = judging_by(url)
        report = session.rollouts(texts([1, 2]), ["a"], judge=llm, progress=False, workers=1)
    assert report.rewards == {"a": [0.5, 0.0]} and sum(llm.faults.values()) == 2


@pytest.mark.parametrize("status", [400, 404, 409, 501, 507])
def test_a_refusal_that_will_repeat_is_not_asked_again(status):
    with (
        judge_endpoint(lambda messages: status) as (url, seen),
        pytest.raises(JudgeFailed, match=f"HTTP {status}"),
    ):
        judging_by(url)("task", ["a", "b"])
    assert len(seen) == 1


def test_a_wrong_key_is_not_asked_again_and_an_endpoint_that_is_down_is_named():
    with (
        judge_endpoint(lambda messages: 401) as (url, seen),
        pytest.raises(JudgeFailed, match="HTTP 401"),
    ):
        judging_by(url)("task", ["a", "b"])
    assert len(seen) == 1
    with pytest.raises(JudgeFailed, match="did not respond: ConnectError"):
        judging_by(url)("task", ["a", "b"])


def test_an_endpoint_that_hangs_is_given_up_after_the_timeout():
    over = threading.Event()
    with judge_endpoint(lambda messages: "late" if over.wait(60) else "never") as (url, _):
        llm = judging_by(url, tries=1, timeout_s=0.2)
        with pytest.raises(JudgeFailed, match=r"did not respond: ReadTimeout"):
            llm("task", ["x", "y"])
        over.set()


def test_an_attempt_that_failed_for_good_takes_its_group_along_without_the_judge(server, connect):
    session = connect(grpo_n=3, tasks_per_batch=1)
    calls = Counter()

    def agent(task, episode):
        calls[task] += 1
        # the second attempt, and its only retry after the third
        if task == "bad" and calls[task] in (2, 4):
            raise ValueError("no idea")
        return task

    def judged(task, outputs):
        assert task == "good"
        return [1.0, 2.0, 3.0]

    report = session.rollouts(
        agent, ["bad", "good"], judge=judged, workers=1, retries=0, progress=False
    )
    assert report.rewards == {"good": [1.0, 2.0, 3.0]}
    kinds = Counter(failure.kind for failure in report.failures)
    assert kinds == {
        "ValueError: no idea": 1,
        "JudgeFailed: 1 of the 3 candidates of a task are missing.": 2,
    }
    assert states(server) == {
        ("completed", None): 3,
        ("abandoned", "ValueError"): 1,
        ("abandoned", "JudgeFailed"): 2,
    }


def test_a_failed_attempt_is_tried_again_and_its_group_waits_for_it(server, connect):
    session = connect(grpo_n=2, tasks_per_batch=1)
    calls = Counter()

    def agent(task, episode):
        calls[task] += 1
        if calls[task] == 1:
            raise ValueError("no idea")
        return task

    report = session.rollouts(
        agent, ["a", "b"], epochs=2, workers=1, judge=lambda t, o: [0.0, 1.0], progress=False
    )
    assert (
        report.rewards == {"a": [0.0, 1.0] * 2, "b": [0.0, 1.0] * 2} and len(report.failures) == 2
    )
    assert sorted(
        Counter(e.task for e in server.episodes.values() if e.reward is not None).values()
    ) == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("agent", "judged", "said"),
    [
        (
            lambda task, episode: None,
            lambda task, outputs: [1.0, 0.0],
            "returned nothing for the judge",
        ),
        (
            lambda task, episode: episode.end(1.0),
            lambda task, outputs: [1.0, 0.0],
            "ended its episode",
        ),
        (
            lambda task, episode: "x",
            lambda task, outputs: [1.0],
            "returned 1 outputs for 2 candidates",
        ),
        (lambda task, episode: "x", lambda task, outputs: 1.0, "returned float for 2 candidates"),
        (lambda task, episode: "x", lambda task, outputs: [None, None], "None"),
        (
            lambda task, episode: "x",
            lambda task, outputs: [1.0, "good"],
            "output for candidate 2 cannot be used: str",
        ),
        (lambda task, episode: "x", lambda task, outputs: 1 / 0, "ZeroDivisionError"),
        (
            lambda task, episode: object(),
            LlmJudge("http://127.0.0.1:1", "k", "m", rubric="r"),
            "cannot read a object",
        ),
    ],
)
def test_what_agent_or_judge_do_wrong_is_counted_and_no_reward(
    server, connect, agent, judged, said
):
    session = connect(grpo_n=2, tasks_per_batch=1)
    report = session.rollouts(agent, ["a"], judge=judged, retries=0, progress=False)
    assert report.count == 0 and len(report.failures) == 2
    assert any(said in failure.kind for failure in report.failures)
    assert not server.ended or "ended its" in said, "none of a group without the others"
    assert not any(episode.state == "open" for episode in server.episodes.values())


@pytest.mark.parametrize("call", ["rollouts", "evaluate", "async"])
def test_a_judge_that_hangs_is_given_up_and_its_group_is_no_reward(server, connect, call):
    over = threading.Event()

    def judged(task, outputs):
        if task == "a":
            over.wait(120)  # what it says then is far too late
        return [1.0, 0.0]

    def agent(task, episode):
        return "x"

    options = {"judge": judged, "workers": 1, "attempt_timeout_s": 2.0, "progress": False}
    if call == "async":

        async def run():
            async with AsyncTinkerScript(
                "m", base_url=server.url, api_key=API_KEY, grpo_n=2
            ) as session:
                return await session.rollouts(agent, ["a", "b"], **options)

        report = asyncio.run(run())
    elif call == "rollouts":
        report = connect(grpo_n=2, tasks_per_batch=1).rollouts(agent, ["a", "b"], **options)
    else:
        report = connect().evaluate(agent, ["a", "b"], attempts=2, **options)
    assert not over.is_set()
    over.set()
    assert report.rewards == {"b": [1.0, 0.0]}
    assert [failure.kind for failure in report.failures] == [
        "WaitTimeout: The judge had not returned after 2 s."
    ] * 2
    assert states(server) == {("completed", None): 2, ("abandoned", "WaitTimeout"): 2}


@pytest.mark.parametrize("answer", [None, error(503, "session_not_ready")])
def test_a_lost_connection_between_agent_and_judge_costs_nothing(server, connect, answer):
    session = connect(grpo_n=2, tasks_per_batch=1)
    server.fail("POST .*/episodes/[^/]*/heartbeat", times=2, answer=answer)
    report = session.rollouts(
        texts([1, 2]), ["a"], judge=lambda task, outputs: [1.0, 0.0], retries=0, progress=False
    )
    assert (report.rewards, report.failures) == ({"a": [1.0, 0.0]}, [])


def test_an_agent_that_calls_nothing_costs_its_group_no_judgement(server, connect):
    server.calls_per_episode = 0
    report = connect(grpo_n=2, tasks_per_batch=1).rollouts(
        lambda task, episode: "x",
        ["a"],
        judge=lambda task, outputs: 1 / 0,
        retries=0,
        progress=False,
    )
    kinds = {failure.kind for failure in report.failures}
    assert {kind.split(".")[0] for kind in kinds} == {
        "EmptyEpisode: The agent made no LLM call in its episode"
    }
    assert states(server) == {("abandoned", "EmptyEpisode"): 2}


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        (lambda task: [1.0], "cannot be called with a task and outputs"),
        ("rank", "judge must be a function"),
    ],
)
def test_a_judge_that_is_none_is_named_before_anything_begins(server, connect, judged, said):
    with pytest.raises(InvalidRequest, match=said):
        connect().rollouts(texts([1]), ["a"], judge=judged, progress=False)
    assert server.episodes == {}


def test_evaluation_is_judged_in_groups_of_its_attempts(server, connect):
    report = connect().evaluate(
        texts([2, 1]),
        ["a"],
        attempts=2,
        judge=lambda task, outputs: list(map(len, outputs)),
        workers=1,
        progress=False,
    )
    assert report.rewards == {"a": [2.0, 1.0]} and {
        episode.eval for episode in server.episodes.values()
    } == {True}


async def _coroutine(task, outputs):
    return []


@pytest.mark.parametrize(
    ("judged", "said"), [(5, "judge must be a function"), (_coroutine, "is a coroutine function")]
)
def test_a_judge_that_cannot_be_called_is_refused_at_once(server, connect, judged, said):
    with pytest.raises(InvalidRequest, match=said):
        connect(tasks_per_batch=1).rollouts(lambda task, episode: "x", ["a"], judge=judged)
    assert server.episodes == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rubric": " "}, "rubric must be a text"),
        ({"tries": 0}, "tries must be"),
        ({"timeout_s": 0}, "timeout_s must"),
        ({"base_url": "judge:80"}, "base_url must be an address"),
    ],
)
def test_options_of_a_judge_are_checked(options, said):
    with pytest.raises(InvalidRequest, match=said):
        LlmJudge(
            **{
                "base_url": "http://127.0.0.1:1/v1",
                "api_key": "key",
                "model": "m",
                "rubric": RUBRIC,
                **options,
            }
        )


def test_names_of_groups_differ_and_fit():
    assert judging.group_key("a") != judging.group_key("a")
    assert len(judging.group_key("x" * 512)) <= 512
    assert json.dumps(judging.group_key("ü"))
