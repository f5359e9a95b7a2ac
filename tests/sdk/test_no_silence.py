"""Nothing waits or is lost without words: what the client's log says, and when."""

import contextlib
import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest
from sdk.http_parts import not_ready
from sdk.rest_server import API_KEY

from support.waiting import wait_until
from tinkerscript import InvalidReward, NoOpenEpisode, WaitTimeout
from tinkerscript.connection import waiting
from tinkerscript.downloads import checkpoints
from tinkerscript.sessions import flushing, session
from tinkerscript.wire.episodes import SampleFate
from tinkerscript.wire.sessions import Accounting


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(session, "NOTICE_AFTER_S", 0.05)
    monkeypatch.setattr(session, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(flushing, "POLL_INTERVAL_S", 0.02)
    monkeypatch.setattr(checkpoints, "POLL_INTERVAL_S", 0.01)


@pytest.fixture
def notices_soon(monkeypatch):
    monkeypatch.setattr(waiting, "NOTICE_AFTER_S", 0.1)
    monkeypatch.setattr(waiting, "POLL_INTERVAL_S", 0.05)


def attempts(session, task, count, reward=1.0):
    for _ in range(count):
        session.begin_episode(task=task)
        session.end_episode(reward)


def test_held_begin_is_explained_once_by_the_servers_reason(server, connect, said, notices_soon):
    session = connect()
    server.hold_begins()
    server.set_state(session.id, "ready", phase="0 of 4 groups complete; task 17 lacks 2")
    threads = [threading.Thread(target=session.begin_episode) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(said)
    server.set_state(session.id, "ready", phase="step 2 trains")
    wait_until(lambda: len(said()) == 2)
    server.let_begins_go()
    for thread in threads:
        thread.join(25)
    first, second = said()
    assert first.endswith(
        f"for session {session.id}: state ready, 0 of 4 groups complete; task 17 lacks 2."
    )
    assert second == f"3 calls wait for session {session.id}: state ready, step 2 trains."


def test_reason_of_a_refused_try_is_logged_too(server, connect, said, notices_soon):
    session = connect(begin_timeout_s=2.0)
    server.fail("POST .*/episodes", times=10_000, answer=not_ready("loading"))
    with pytest.raises(WaitTimeout):
        session.begin_episode()
    assert said() == [f"A call waits for session {session.id}: state ready; not ready."]


def test_begin_that_does_not_wait_is_quiet(server, connect, said):
    attempts(connect(), "a", 8)
    assert said() == []


def test_long_start_is_explained_unless_the_caller_follows_it(server, connect, said):
    server.first_state = "queued"
    with pytest.raises(WaitTimeout):
        connect(wait_timeout_s=1.5)
    waits = "position 2 in the queue"
    assert said() == [f"Session ses_1 is not there yet: state queued, {waits}."]
    with pytest.raises(WaitTimeout):
        connect(wait_timeout_s=1.5, on_progress=lambda *_: None)
    assert len(said()) == 1


def test_task_that_is_left_with_too_few_attempts_is_named_once(server, connect, said):
    session = connect(grpo_n=4, tasks_per_batch=2)
    for task in ("red", "green", "blue", "white"):
        attempts(session, task, 3)
    [warning] = said()
    assert "Task 'red' has 3 attempts" in warning
    assert "grpo_n=4" in warning


@pytest.mark.parametrize(
    ("task", "word"), [("{}", "same task for each attempt"), (None, "Without a task")]
)
def test_loop_whose_every_episode_is_of_another_task_is_told_once(
    server, connect, said, task, word
):
    session = connect(grpo_n=4, tasks_per_batch=2)
    for number in range(20):
        begun = session.begin_episode(task=task and task.format(number))
        server.episodes[begun.id] = server.episodes[begun.id].model_copy(
            update={"group_key": f"prompt {number}"}
        )
        session.end_episode(1.0)
        assert bool(said()) == (number >= 7), "8 episodes make a step"
    [warning] = said()
    assert "8 episodes have ended" in warning and "grpo_n=4" in warning and word in warning


@pytest.mark.parametrize("order", ["task by task", "in rounds", "from threads"])
def test_loops_that_fill_their_groups_hear_nothing(server, connect, said, order):
    session = connect(grpo_n=4, tasks_per_batch=7)
    tasks = [f"{n}" for n in range(7)]
    if order == "task by task":
        for task in tasks:
            attempts(session, task, 4)
    elif order == "in rounds":
        for _ in range(4):
            for task in tasks:
                attempts(session, task, 1)
    else:
        session.rollouts(lambda task, episode: 1.0, tasks, workers=16, progress=False)
    assert said() == []


def test_rollouts_whose_last_attempts_begin_late_hear_nothing(server, connect, said, monkeypatch):
    session, begun = connect(grpo_n=4, tasks_per_batch=3), Counter()
    begin, counting = session.begin_waiting, threading.Lock()

    def task_by_task_but_the_last_ones(wait, *, task, **options):
        with counting:
            begun[task] += 1
            is_last = begun[task] == 4
        before = 9 if is_last else "abc".index(task) * 3
        wait_until(
            lambda: sum(e.fate is not None for e in list(server.episodes.values())) >= before
        )
        return begin(wait, task=task, **options)

    monkeypatch.setattr(session, "begin_waiting", task_by_task_but_the_last_ones)
    assert (
        session.rollouts(
            lambda task, episode: 1.0, ["a", "b", "c"], workers=12, progress=False
        ).count
        == 12
    )
    assert said() == []


def test_tuned_model_of_a_session_that_trained_nothing_reports_it(server, connect, said, tmp_path):
    session = connect()
    server.checkpoint_step = 0
    server.set_state(session.id, "ready", phase="1 of 4 groups complete")
    session.download_tuned_model(tmp_path / "m", progress=False)
    [warning] = said()
    assert "has trained no step" in warning
    assert "1 of 4 groups complete" in warning


def test_close_logs_episodes_that_wait(server, connect, said):
    session = connect(grpo_n=4, tasks_per_batch=2)
    attempts(session, "a", 4)
    attempts(session, "b", 3)
    session.close()
    # threads of earlier tests may still speak
    [warning] = [text for text in said() if "episodes wait" in text]
    assert "closes while 7 episodes wait" in warning
    assert (
        "(1 of 2 groups are full; 1 are not, such as 'b' with 3 of 4 attempts). They fill no batch"
        in warning
    )


def test_close_says_that_a_batch_is_complete_and_was_not_waited_for(server, connect, said):
    session = connect(grpo_n=2, tasks_per_batch=1)
    attempts(session, "a", 2)
    session.close()
    [warning] = [text for text in said() if "episodes wait" in text]
    assert "(1 of 1 groups are full). Call flush() before close()" in warning


def test_close_says_how_many_of_the_training_episodes_were_not_trained(
    server, connect, said, monkeypatch
):
    session = connect()
    counted = Accounting(begun=432, trained=160, eval=48, stale=224)
    monkeypatch.setattr(session, "accounting", lambda: counted)
    session.close()
    [warning] = [text for text in said() if "not trained" in text]
    assert warning.startswith("224 of the 384 training episodes") and "equal rewards" in warning


def test_rollouts_say_at_once_which_of_their_tasks_fill_no_batch(server, connect, said):
    session = connect(grpo_n=2, tasks_per_batch=2)
    for tasks in ("abcde", "fgh"):
        session.rollouts(lambda task, episode: 1.0, list(tasks), progress=False)
    [warning] = [text for text in said() if "groups come" in text]
    assert (
        "5 groups come of these tasks: 2 steps of tasks_per_batch=2, and 1 groups (2 attempts) are left"
        in warning
    )


def test_close_logs_episodes_that_were_dropped(server, connect, said):
    session = connect(grpo_n=2)
    attempts(session, "a", 2)
    for episode in server.episodes.values():
        server.episodes[episode.episode_id] = episode.model_copy(update={"fate": SampleFate.STALE})
    session.close()
    [warning] = [text for text in said() if "not trained" in text]
    assert "2 of the 2 training episodes" in warning
    assert "no step was done: nothing was learned" in warning and "no loss" not in warning


def test_flush_returns_when_no_batch_is_complete_and_returns_what_is_left(server, connect, said):
    session = connect(grpo_n=2, tasks_per_batch=2)
    attempts(session, "a", 2)
    attempts(session, "b", 1)
    assert session.flush().waiting == 3
    [warning] = said()
    assert "1 of 2 groups are full; 1 are not, such as 'b' with 1 of 2 attempts" in warning


def test_flush_returns_when_the_session_has_done_all_of_its_steps(server, connect, said):
    session = connect(grpo_n=2, tasks_per_batch=1, max_steps=1)
    attempts(session, "a", 2)
    server.train()
    server.set_state(session.id, "ready", policy_version=1)
    attempts(session, "b", 2)
    assert session.flush(timeout_s=5).waiting == 2
    [warning] = said()
    assert "max_steps=1 is reached" in warning


def test_flush_waits_for_the_step_of_a_complete_batch(server, connect, said):
    session = connect(grpo_n=2, tasks_per_batch=2)
    attempts(session, "a", 2)
    attempts(session, "b", 2)
    with pytest.raises(WaitTimeout, match="2 of 2 groups are full"):
        session.flush(timeout_s=0.1)
    threading.Timer(0.1, server.train).start()
    assert (session.flush(timeout_s=30).waiting, session.accounting().trained) == (0, 4)
    assert said() == []


PROGRAM = """
import os, signal
from tinkerscript import TinkerScript
session = TinkerScript("SmolLM2", base_url={url!r}, api_key={key!r}, wait_timeout_s=60)
session.begin_episode()
os.kill(os.getpid(), signal.SIGINT)
"""


def interrupted(server, when=None):
    """The status and stderr of a loop that interrupts itself, or that Ctrl-C reaches as soon as
    ``when()`` holds.
    """
    code = PROGRAM.format(url=server.url, key=API_KEY)
    # A suite that a shell runs in the background ignores Ctrl-C, and so would its children.
    interruptible = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, preexec_fn=interruptible, stderr=subprocess.PIPE, text=True
    ) as program:
        try:
            if when is not None:
                wait_until(when, timeout_s=60)  # most of it is the import
                program.send_signal(signal.SIGINT)
            said = program.communicate(timeout=60)[1]
        finally:
            program.kill()
    return program.returncode, said


@pytest.mark.system
def test_loop_without_with_that_ctrl_c_ends_leaves_no_session(server):
    _, said = interrupted(server)
    assert "KeyboardInterrupt" in said
    assert "Interrupted: session ses_1 was stopped." in said
    assert [view.state for view in server.sessions.values()] == ["stopped"]
    assert [e.reason for e in server.episodes.values()] == ["closed"]


@pytest.mark.system
@pytest.mark.parametrize("state", ["queued", "loading"])
def test_start_that_ctrl_c_ends_leaves_no_session(server, state):
    server.first_state = state
    status, _ = interrupted(server, lambda: server.seen("GET /v1/sessions/ses_1"))
    assert status != 0
    assert [view.state for view in server.sessions.values()] == ["stopped"]


@pytest.mark.system
def test_create_that_ctrl_c_interrupts_leaves_no_session_either(server):
    server.create_delay_s = 1.0
    status, _ = interrupted(server, lambda: server.seen("POST /v1/sessions"))
    assert status != 0
    assert [view.state for view in server.sessions.values()] == ["stopped"]


def test_an_episode_that_is_not_trained_after_all_is_named_with_the_option(server, connect, said):
    session = connect(unsupported_sampling="eval_only")
    begun = session.begin_episode()
    server.episodes[begun.id] = server.episodes[begun.id].model_copy(
        update={"eval": True, "reason": "top_p"}
    )
    session.end_episode(1.0)
    [warning] = said()
    assert begun.id in warning and "top_p" in warning
    session.begin_episode(eval=True)
    session.end_episode(1.0)
    assert len(said()) == 1, "evaluation that was asked for needs no word"


def test_server_s_warning_about_an_episode_is_logged_once(server, connect, said):
    server.idle_timeout_s = 0.04
    session = connect()
    episode = session.begin_episode()
    server.episodes[episode.id] = server.episodes[episode.id].model_copy(
        update={"warning": "many attempts."}
    )
    wait_until(said)
    session.end_episode(1.0)
    assert said() == [f"Episode {episode.id}: many attempts."]


def test_ending_twice_with_the_same_output_is_logged_once(session, said):
    episode = session.begin_episode()
    for _ in range(3):
        assert session.end_episode(0.0).episode_id == episode.id
    [warning] = said()
    assert "ended before" in warning
    assert "begin_episode()" in warning


def test_loops_that_print_an_error_by_its_repr_show_what_to_do(session):
    session.begin_episode()
    session.end_episode(0.0)
    with pytest.raises(NoOpenEpisode) as caught:
        session.end_episode(1.0)
    assert "Begin the next one with begin_episode()" in repr(caught.value)


def test_a_loop_that_never_ends_its_episodes_is_told_once_of_both_causes(session, said):
    session.begin_episode()
    session.begin_episode()  # an agent that raised: the loop goes on
    session.end_episode(1.0)
    for _ in range(3):
        session.begin_episode()
    session.abort_episode("the agent raised")
    for _ in range(3):
        session.begin_episode()
    assert said() == [], "an episode that was aborted ends a row as one that was ended does"
    for _ in range(4):
        session.begin_episode()
    [warning] = said()
    assert "3 episodes in a row were begun and never ended" in warning and "end_episode(" in warning
    assert "the agent raised" in warning and "abort_episode(" in warning


def test_a_loop_whose_rewards_are_no_numbers_is_told_what_they_were(session, said):
    """It passes over the exceptions, as loops do."""
    for _ in range(4):
        session.begin_episode()
        with contextlib.suppress(InvalidReward):
            session.end_episode(float("nan"))
    [warning] = said()
    assert warning.endswith("The end of the last one was refused: reward must be finite, not nan.")


def test_blocks_that_never_end_their_episodes_are_told_of_once_at_the_third(session, said):
    with session.episode("a"):
        pass
    with session.episode("a") as episode:
        episode.end(1.0)
    for _ in range(2):
        with session.episode("a"):
            pass
    assert said() == []
    for _ in range(2):
        with session.episode("a"):
            pass
    [warning] = said()
    assert (
        "3 blocks of `with session.episode(task)` in a row" in warning
        and "end_episode(reward)" in warning
    )
