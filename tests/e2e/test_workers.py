"""Workers pull tasks of a real server while some are killed: one ended episode for each attempt."""

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from e2e.loop_server import LoopServer, until

from support.child_processes import child_process
from tinkerscript import Conflict, InvalidRequest

ROOT = Path(__file__).resolve().parents[2]
AGENT = """
import os, signal, time

def run(row, episode):
    asked = [{"role": "user", "content": row["q"]}]
    with episode.openai() as client:
        client.chat.completions.create(model=episode.model, messages=asked, max_tokens=4)
    if os.environ["MODE"] == "hangs":
        time.sleep(600)
    if os.environ["MODE"] == "dies":  # its end is on the server's disk, and no one was told that the task is done
        episode.end(1.0)
        os.kill(os.getpid(), signal.SIGKILL)
    if row["q"] == "hard":
        raise ValueError("no idea")
    return 1.0
"""


# A text for the judge, which likes "b" more than "a". A worker that "dies" does so when it has
# ended one of a group.
JUDGED = """
import itertools, os, signal, time
from tinkerscript.episodes.episode import Episode

letters = itertools.cycle("ab")
end = Episode.end

def end_and_die(episode, output):
    end(episode, output)
    os.kill(os.getpid(), signal.SIGKILL)

if os.environ["MODE"] == "dies":
    Episode.end = end_and_die

def run(row, episode):
    asked = [{"role": "user", "content": row["q"]}]
    with episode.openai() as client:
        client.chat.completions.create(model=episode.model, messages=asked, max_tokens=4)
    if os.environ["MODE"] == "hangs":
        time.sleep(600)
    return next(letters)

def rank(row, texts):
    if row["q"] == "hard":
        raise ConnectionError("the judge is down")
    return [{"reward": float(text == "b"), "metadata": {"read": texts}} for text in texts]
"""


def worker(
    server: LoopServer,
    folder: Path,
    session_id: str,
    mode: str,
    agent: str = "run",
    judge: str = "",
) -> AbstractContextManager[subprocess.Popen[str]]:
    """``tinkerscript worker`` in a process of its own; the lease of one that is to be lost is
    short.
    """
    (folder / "my_agent.py").write_text(JUDGED if judge else AGENT)
    command = [
        "worker",
        f"my_agent:{agent}",
        "--session",
        session_id,
        "--workers",
        "2",
        "--lease-s",
        "30" if mode == "none" else "1.5",
        "--until-empty",
        *(["--judge", judge] if judge else []),
    ]
    environment = os.environ | {
        "MODE": mode, "PYTHONPATH": str(ROOT / "sdk"), "TINKERSCRIPT_BASE_URL": server.url,
        "TINKERSCRIPT_API_KEY": server.api_key,
    }  # fmt: skip
    return child_process(
        [sys.executable, "-m", "tinkerscript", *command], folder=folder, environment=environment
    )


def test_a_killed_workers_attempts_are_played_elsewhere_once(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    with loop_server.session(grpo_n=2, tasks_per_batch=50) as session, ExitStack() as processes:
        session.tasks.put(
            [{"q": name} for name in ("a", "b", "c", "hard")],
            tries=3,
            task_name=lambda row: row["q"],
        )
        hangs = processes.enter_context(worker(loop_server, tmp_path, session.id, "hangs"))
        until(
            lambda: session.accounting().open == 2 and all(e.calls for e in session.episodes()),
            "it plays two",
        )
        assert (session.tasks.counts().running, session.tasks.counts().workers) == (2, 1)
        dies = processes.enter_context(worker(loop_server, tmp_path, session.id, "dies"))
        hangs.kill()
        dies.communicate(timeout=60)
        assert dies.returncode == -9
        ends = processes.enter_context(worker(loop_server, tmp_path, session.id, "none"))
        out, err = ends.communicate(timeout=60)
        hangs.communicate(timeout=25)
        assert ends.returncode == 0, err
        counts = session.tasks.counts()
        assert (counts.waiting, counts.running, counts.done, counts.failed) == (0, 0, 6, 2), (
            out,
            err,
        )
        assert {(failure.name, failure.error) for failure in counts.failures} == {
            ("hard", "ValueError: no idea")
        }
        episodes = list(session.episodes())
        ended = Counter(episode.task for episode in episodes if episode.state == "completed")
        assert ended == {"a": 2, "b": 2, "c": 2}
        assert {episode.reward for episode in episodes if episode.state == "completed"} == {1.0}
        reasons = Counter(episode.reason for episode in episodes if episode.state == "abandoned")
        assert reasons["its worker was lost"] >= 2 and reasons["ValueError"] == 6
        rows, options = [{"q": "a"}, {"q": "hard"}], {"tries": 1, "task_name": lambda row: row["q"]}
        with ThreadPoolExecutor(1) as thread:
            evaluated = thread.submit(session.tasks.evaluate, rows, **options, timeout_s=60)
            until(lambda: session.tasks.counts().waiting == 2, "they wait")
            processes.enter_context(worker(loop_server, tmp_path, session.id, "none"))
            report = evaluated.result()
        assert (report.by_task, len(report.failures)) == ({"a": 1.0}, 1)
        (measured,) = session.events(kinds=["evaluation"])
        assert (measured.data["by_task"]["a"]["episodes"], measured.data["failed"]) == (1, 1)


def test_a_killed_workers_group_is_judged_elsewhere_and_each_attempt_ended_once(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    with loop_server.session(grpo_n=2, tasks_per_batch=50) as session, ExitStack() as processes:
        rows = [{"q": name} for name in ("x", "y", "hard")]
        session.tasks.put(rows, tries=3, judged=True, task_name=lambda row: row["q"])
        plain = processes.enter_context(worker(loop_server, tmp_path, session.id, "none"))
        _, err = plain.communicate(timeout=60)
        assert (plain.returncode, session.accounting().begun) == (0, 0), err
        assert "6 attempts of judged tasks wait: this worker has no judge and leaves them" in err
        hangs = processes.enter_context(
            worker(loop_server, tmp_path, session.id, "hangs", judge="my_agent:rank")
        )
        until(
            lambda: session.accounting().open == 2 and all(e.calls for e in session.episodes()),
            "it plays a group",
        )
        assert (session.tasks.counts().running, session.tasks.counts().waiting) == (2, 4)
        hangs.kill()
        dies = processes.enter_context(
            worker(loop_server, tmp_path, session.id, "dies", judge="my_agent:rank")
        )
        dies.communicate(timeout=60)
        assert dies.returncode == -9
        assert sum(episode.state == "completed" for episode in session.episodes()) == 1
        ends = processes.enter_context(
            worker(loop_server, tmp_path, session.id, "none", judge="my_agent:rank")
        )
        out, err = ends.communicate(timeout=60)
        hangs.communicate(timeout=25)
        assert ends.returncode == 0, err
        counts = session.tasks.counts()
        assert (counts.waiting, counts.running, counts.done, counts.failed) == (0, 0, 4, 2), (
            out,
            err,
        )
        assert [(failure.name, failure.error) for failure in counts.failures] == [
            ("hard", "ConnectionError: the judge is down (2)")
        ]
        episodes = list(session.episodes())
        ended = Counter((e.task, e.reward) for e in episodes if e.state == "completed")
        assert sorted((task.split(" #")[0], reward) for task, reward in ended) == [
            ("x", 0.0), ("x", 1.0), ("y", 0.0), ("y", 1.0),
        ]  # fmt: skip
        assert set(ended.values()) == {1} and len({task for task, _ in ended}) == 2
        for one in (e for e in episodes if e.state == "completed"):
            kept = loop_server.get(f"/v1/sessions/{session.id}/episodes/{one.episode_id}")[
                "metadata"
            ]
            assert sorted(kept["read"]) == ["a", "b"]
        assert all(e.state in ("completed", "abandoned") for e in episodes)
        assert Counter(e.reason for e in episodes)["ConnectionError"] == 6


def test_what_a_worker_cannot_do_is_said(loop_server: LoopServer, tmp_path: Path) -> None:
    with loop_server.session() as session:
        with pytest.raises(InvalidRequest, match="There are no rows"):
            session.tasks.put([])
        with worker(loop_server, tmp_path, session.id, "none", "missing") as process:
            _, err = process.communicate(timeout=60)
        assert (process.returncode, "module my_agent has no missing" in err) == (1, True), err
        session.stop()
        session.wait_released(30)
        with pytest.raises(Conflict, match="plays no more tasks"):
            session.tasks.put(["a"])
