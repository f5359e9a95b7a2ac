"""session.rollouts() and session.evaluate(): full groups, named failures, an end by Ctrl-C that
leaves nothing open.
"""

import asyncio
import itertools
import math
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from openai import OpenAI
from sdk.http_parts import error
from sdk.rest_server import API_KEY

from support.ports import free_port
from support.waiting import eventually, wait_until
from tinkerscript import AsyncTinkerScript, InvalidRequest, SessionFailed, WorkflowOutput
from tinkerscript.reports import ProgressLine


def fates(server):
    return Counter((e.task, e.state.value, e.eval) for e in server.episodes.values())


def test_every_task_gets_a_full_group(server, connect):
    session = connect(grpo_n=4, tasks_per_batch=2)
    report = session.rollouts(lambda task, episode: len(task), ["a", "bb"], workers=3, epochs=2)
    assert fates(server) == {("a", "completed", False): 8, ("bb", "completed", False): 8}
    assert (report.count, report.mean, report.by_task) == (16, 1.5, {"a": 1.0, "bb": 2.0})


def test_agents_may_be_coroutines_end_themselves_and_use_the_current_episode(server, connect):
    session = connect(grpo_n=2, tasks_per_batch=1)

    async def asynchronous(task, episode):
        await asyncio.sleep(0)
        return WorkflowOutput(reward=1.0, is_success=True)

    assert session.rollouts(asynchronous, ["a"]).success_rate == 1.0
    assert session.rollouts(lambda task, episode: episode.end(0.5) and None, ["b"]).mean == 0.5
    assert (
        session.rollouts(lambda task, episode: session.end_episode(0.25) and None, ["c"]).mean
        == 0.25
    )


@pytest.mark.parametrize(
    ("agent", "tasks", "options", "words"),
    [
        (lambda task: 1.0, ["a"], {}, "agent\\(task, episode\\)"),
        (lambda task, episode: 1.0, "abc", {}, "tasks is one str.*Give a list"),
        (lambda task, episode: 1.0, 5, {}, "tasks is one int.*Give a list"),
        (lambda task, episode: 1.0, [], {}, "no tasks"),
        (
            lambda task, episode: 1.0,
            ["a"],
            {"workers": 0},
            "workers must be a whole number, 1 or more",
        ),
        (None, ["a"], {}, "agent\\(task, episode\\)"),
    ],
)
def test_what_cannot_run_is_refused_before_an_episode_begins(
    server, connect, agent, tasks, options, words
):
    with pytest.raises(InvalidRequest, match=words):
        connect(tasks_per_batch=1).rollouts(agent, tasks, **options)
    assert server.episodes == {}


def test_failed_attempts_are_abandoned_tried_again_counted_and_shown(server, connect, capsys):
    session = connect(grpo_n=4, tasks_per_batch=1)
    lock, calls = threading.Lock(), Counter()

    def agent(task, episode):
        with lock:
            calls[task] += 1
            if calls[task] in (1, 2):
                raise ValueError("no\nidea")
        return 1.0

    report = session.rollouts(agent, ["a"], workers=2, retries=2)
    assert fates(server) == {("a", "completed", False): 4, ("a", "abandoned", False): 2}
    # by the failure, and not because its thread began the next one
    reasons = [each.reason for each in server.episodes.values() if each.state == "abandoned"]
    assert reasons == ["ValueError"] * 2
    assert (report.count, report.mean, len(report.failures)) == (4, 1.0, 2)
    said = capsys.readouterr().err
    assert "2 x ValueError: no idea   (task a)" in said
    assert "4 of 4 attempts, 2 failed, reward 1.000" in said


def test_agent_that_returns_nothing_is_a_failure_and_no_reward_of_zero(server, connect):
    session = connect(grpo_n=2, tasks_per_batch=1)
    report = session.rollouts(lambda task, episode: None, ["a"], retries=0, progress=False)
    assert report.count == 0
    assert math.isnan(report.mean)
    assert {failure.kind.split(":")[0] for failure in report.failures} == {"InvalidReward"}


@pytest.mark.parametrize(
    "output", [str, lambda text: {"reward": text}], ids=["as the output", "as the reward"]
)
def test_texts_that_agents_return_instead_of_a_reward_are_one_kind_of_failure(
    server, connect, output
):
    texts = itertools.count()
    report = connect(grpo_n=2, tasks_per_batch=1).rollouts(
        lambda task, episode: output(f"Text (number {next(texts)}). "),
        ["a", "b"],
        retries=0,
        progress=False,
    )
    assert (
        report.count,
        len(report.failures),
        len({failure.kind for failure in report.failures}),
    ) == (0, 4, 1)
    assert "Text (number " in str(report.failures[0].error)


def test_an_agent_that_hangs_is_counted_and_its_place_taken(server, connect):
    session = connect(grpo_n=2, tasks_per_batch=1)
    lock, calls, over = threading.Lock(), Counter(), threading.Event()

    def agent(task, episode):
        with lock:
            calls[task] += 1
            hangs = calls[task] == 1
        if hangs:
            over.wait(60)
            return 5.0  # far too late: it is in no mean
        return 1.0

    began = time.monotonic()
    report = session.rollouts(agent, ["a", "b"], workers=1, attempt_timeout_s=2.0, progress=False)
    assert time.monotonic() - began < 50
    over.set()
    assert report.rewards == {"a": [1.0, 1.0], "b": [1.0, 1.0]}
    assert [failure.kind for failure in report.failures] == [
        "WaitTimeout: The agent had not returned after 2 s."
    ] * 2
    assert fates(server)["a", "abandoned", False] == fates(server)["b", "abandoned", False] == 1
    assert {e.reason for e in server.episodes.values() if e.state == "abandoned"} == {"WaitTimeout"}
    assert report.mean == 1.0


def test_an_agent_that_fails_after_it_was_given_up_fails_once(server, connect):
    calls, is_late, raises = Counter(), threading.Event(), threading.Event()

    def agent(task, episode):
        calls[task] += 1
        if calls[task] == 1:
            is_late.wait(120)
            raises.set()
            raise ValueError("its episode was over")
        is_late.set()
        raises.wait(30)
        return 1.0

    session = connect(grpo_n=2, tasks_per_batch=1)
    report = session.rollouts(
        agent, ["a"], workers=1, attempt_timeout_s=3.0, retries=2, progress=False
    )
    assert report.rewards == {"a": [1.0, 1.0]}, "as many as were asked for"
    assert [failure.kind for failure in report.failures] == [
        "WaitTimeout: The agent had not returned after 3 s."
    ]


def test_an_evaluation_whose_agents_all_hang_ends_and_measures_nothing(server, connect):
    over = threading.Event()
    report = connect().evaluate(
        lambda t, e: over.wait(60), ["a", "b"], attempt_timeout_s=1.0, progress=False
    )
    over.set()
    assert report.count == 0 and len(report.failures) == 2
    with pytest.raises(InvalidRequest, match="attempt_timeout_s must be"):
        connect().evaluate(lambda t, e: 1.0, ["a"], attempt_timeout_s=0)


def test_a_wrong_column_and_an_endpoint_that_is_down_are_named_and_no_reward(server, connect):
    down = f"http://127.0.0.1:{free_port()}/v1"

    def agent(row, episode):
        if row["q"] == "down":
            OpenAI(base_url=down, api_key="k", max_retries=0).models.list()
        return row["answr"]

    report = connect(grpo_n=2, tasks_per_batch=1).rollouts(
        agent, [{"q": "down", "answer": 1.0}, {"q": "up", "answer": 1.0}], retries=0, progress=False
    )
    assert report.count == 0
    assert Counter(failure.kind for failure in report.failures) == {
        f"APIConnectionError: Connection error. ({down}/models)": 2, "KeyError: 'answr'": 2,
    }  # fmt: skip
    assert not [e for e in server.episodes.values() if e.reward is not None]


@pytest.mark.parametrize(
    "raised", [SystemExit("no such row"), asyncio.CancelledError("no such row")]
)
def test_an_agent_that_exits_as_a_program_does_ends_its_attempt_alone(server, connect, raised):
    def agent(task, episode):
        if task == "bad":
            raise raised
        return 1.0

    report = connect(grpo_n=2, tasks_per_batch=1).rollouts(
        agent, ["bad", "good"], retries=0, progress=False
    )
    assert report.rewards == {"good": [1.0, 1.0]}
    assert {failure.kind for failure in report.failures} == {
        f"{type(raised).__name__}: no such row"
    }
    assert fates(server) == {("bad", "abandoned", False): 2, ("good", "completed", False): 2}


def test_what_ends_the_session_ends_the_rollouts(server, connect):
    session = connect(grpo_n=2)
    server.fail("POST .*/episodes", times=999, answer=error(409, "session_failed", "it failed"))
    with pytest.raises(SessionFailed):
        session.rollouts(lambda task, episode: 1.0, [str(n) for n in range(50)], progress=False)
    assert len(server.seen("POST .*/episodes")) <= 33


def test_no_tasks_and_tasks_without_a_name_are_refused_and_too_few_are_logged(
    server, connect, caplog
):
    session = connect(grpo_n=2, tasks_per_batch=3)
    with pytest.raises(InvalidRequest, match="no tasks"):
        session.rollouts(lambda task, episode: 1.0, [])
    with pytest.raises(InvalidRequest, match="task_name"):
        session.rollouts(lambda task, episode: 1.0, [object()])
    assert server.seen("POST .*/episodes") == []
    session.rollouts(lambda task, episode: 1.0, [{"q": 1}, {"q": 2}], progress=False)
    assert "2 groups come of these tasks, and a step needs tasks_per_batch=3" in caplog.text
    assert len({e.task for e in server.episodes.values()}) == 2


def test_evaluation_is_never_trained(server, connect):
    session = connect()
    report = session.evaluate(
        lambda task, episode: {"reward": len(task), "is_success": task == "bb"}, ["a", "bb"]
    )
    assert fates(server) == {("a", "completed", True): 1, ("bb", "completed", True): 1}
    assert (report.mean, report.success_rate) == (1.5, 0.5)
    assert report.standard_error == pytest.approx(0.5)


PROGRAM = """
import os, signal, sys, threading, time
from tinkerscript import TinkerScript
session = TinkerScript("SmolLM2", base_url={url!r}, api_key={key!r}, grpo_n=2)
once = threading.Lock()
def agent(task, episode):
    if task == "5" and once.acquire(blocking=False):
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600)
    return 1.0
{run}
"""


def interrupted(server, run):
    """A program that is sent what Ctrl-C sends while its agents run."""
    code = PROGRAM.format(url=server.url, key=API_KEY, run=run)
    # A suite that a shell runs in the background ignores Ctrl-C, and so would its children.
    interruptible = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, preexec_fn=interruptible, capture_output=True, text=True, timeout=60, check=False
    )


def test_an_interrupt_abandons_the_open_episodes_and_begins_no_more(server, connect, monkeypatch):
    session = connect(grpo_n=2, tasks_per_batch=1)

    def agent(task, episode):
        while episode.is_open:
            threading.Event().wait(0.01)
        raise ConnectionError("the episode is over")

    def interrupted(line, said):
        if len(server.episodes) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressLine, "show", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.rollouts(agent, ["a", "b"], workers=2)
    assert {each.state.value for each in server.episodes.values()} == {"abandoned"}
    assert len(server.episodes) == 2


@pytest.mark.system
def test_ctrl_c_abandons_what_is_open_and_leaves_no_session(server):
    done = interrupted(server, "session.rollouts(agent, map(str, range(8)), workers=12)")
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
    assert "was stopped" in done.stderr
    assert {e.state.value for e in server.episodes.values()} == {"abandoned"}
    assert [view.state for view in server.sessions.values()] == ["stopped"]


TWICE = """
def again():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
def agent(task, episode):
    if task == "5" and once.acquire(blocking=False):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=again, daemon=True).start()
    time.sleep(600)
session.rollouts(agent, map(str, range(8)), workers=12)
"""


@pytest.mark.system
def test_a_second_ctrl_c_ends_a_program_whose_server_takes_nothing_back(server):
    server.fail("POST .*/abandon", times=999, answer=error(503, "unavailable", "busy"))
    began = time.monotonic()
    done = interrupted(server, TWICE)
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
    assert time.monotonic() - began < 30, "each is tried for 30 s"
    assert [view.state for view in server.sessions.values()] == ["stopped"]


@pytest.mark.system
def test_one_ctrl_c_is_enough_when_the_server_takes_nothing_back(server):
    server.fail("POST .*/abandon", times=999, answer=error(503, "unavailable", "busy"))
    done = interrupted(server, "session.rollouts(agent, map(str, range(8)), workers=12)")
    assert "KeyboardInterrupt" in done.stderr
    assert [view.state for view in server.sessions.values()] == ["stopped"]


async def test_rollouts_in_asyncio_run_coroutines_in_the_loop(server):
    async with AsyncTinkerScript(
        "m", base_url=server.url, api_key=API_KEY, grpo_n=2, tasks_per_batch=1
    ) as session:
        loop = asyncio.get_running_loop()

        async def agent(task, episode):
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            return 1.0

        report = await session.rollouts(agent, [str(n) for n in range(8)], progress=False)
        assert (report.count, report.failures) == (16, [])
        assert (await session.evaluate(agent, ["x"], progress=False)).count == 1


async def test_cancelled_rollouts_begin_no_more_and_leave_nothing_open(server):
    async with AsyncTinkerScript("m", base_url=server.url, api_key=API_KEY, grpo_n=2) as session:

        async def agent(task, episode):
            await asyncio.sleep(600)

        running = asyncio.create_task(
            session.rollouts(agent, map(str, range(100)), workers=4, progress=False)
        )
        await eventually(lambda: len(server.episodes) == 4)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        states = lambda: {e.state.value for e in server.episodes.values()}  # noqa: E731
        await asyncio.to_thread(wait_until, lambda: states() == {"abandoned"}, 20)
        assert len(server.episodes) == 4
