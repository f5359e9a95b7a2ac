"""What Ray, Dask and joblib do with a loop, by cloudpickle. Ray itself plays in
tests/e2e/nightly_ray.py.

A function with all that it holds goes to a worker process that lives on; its result or its
exception comes back.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tinkerscript import (
    AsyncTinkerScript,
    EpisodeClosed,
    InvalidReward,
    TinkerScript,
    WorkflowOutput,
)

cloudpickle = pytest.importorskip("cloudpickle")

WORKER = """
import struct, sys, cloudpickle
pipe = sys.stdin.buffer
while header := pipe.read(8):
    function = cloudpickle.loads(pipe.read(struct.unpack("<q", header)[0]))
    try:
        done = (True, function())
    except BaseException as failure:
        done = (False, failure)
    said = cloudpickle.dumps(done)
    sys.stdout.buffer.write(struct.pack("<q", len(said)) + said)
    sys.stdout.buffer.flush()
"""
Remote = Callable[[Callable[[], Any]], Any]


@contextlib.contextmanager
def worker() -> Iterator[Remote]:
    """A process that runs functions, as one of Ray's workers does."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    there, back = process.stdin, process.stdout

    def remote(function: Callable[[], Any]) -> Any:
        sent = cloudpickle.dumps(function)
        there.write(len(sent).to_bytes(8, "little") + sent)
        there.flush()
        fine, result = cloudpickle.loads(back.read(int.from_bytes(back.read(8), "little")))
        if not fine:
            raise result
        return result

    try:
        yield remote
    finally:
        there.close()
        assert process.wait(60) == 0
        back.close()


@pytest.fixture(scope="module")
def workers() -> Iterator[tuple[Remote, Remote]]:
    """Two, for all tests of this file: a worker lives on."""
    with worker() as first, worker() as second:
        yield first, second


@pytest.mark.system
def test_a_function_that_holds_the_session_plays_its_episodes_in_a_worker(
    server, session, workers
) -> None:
    mine = session.begin_episode(task="driver")

    def rollout(number: int) -> Any:
        with session.episode(f"{number}") as (base_url, api_key):
            assert base_url and api_key
            view = session.end_episode(WorkflowOutput(reward=number / 4))
        return os.getpid(), session.id, view

    done = [remote(lambda n=n: rollout(n)) for n, remote in enumerate([*workers, *workers])]
    assert len({process for process, _, _ in done} - {os.getpid()}) == 2, (
        "each worker is a process of its own"
    )
    assert [(session_id, view.reward) for _, session_id, view in done] == [
        (session.id, n / 4) for n in range(4)
    ]
    assert len(server.sessions) == 1 and server.sessions[session.id].state == "ready", (
        "no worker's end stops it"
    )
    assert len(server.seen("GET /v1/server")) == 3, (
        "the driver's, and one for each worker: a worker attaches once"
    )
    assert session.end_episode(1.0).episode_id == mine.id, "the driver's episode is the driver's"


def test_an_episode_begun_in_the_driver_is_ended_in_a_worker(session, workers) -> None:
    episode = session.begin_episode(task="a")
    base_url, api_key = episode

    def there() -> Any:
        assert (base_url, api_key) == tuple(episode)
        return episode.end(0.5)

    assert workers[0](there).reward == 0.5
    with pytest.raises(EpisodeClosed):
        episode.end(0.0)


def test_errors_come_back_with_their_hints(session, workers) -> None:
    def wrong() -> None:
        with session.episode("a") as episode:
            episode.end(float("nan"))

    with pytest.raises(InvalidReward, match="Hint: Return a finite number"):
        workers[0](wrong)


def test_a_class_that_holds_its_session_is_an_actor(server, session, workers) -> None:
    class Actor:
        def __init__(self, session: TinkerScript) -> None:
            self.session = session

        def play(self) -> str:
            self.session.begin_episode(task="actor")
            return self.session.end_episode(1.0).episode_id

    actor = Actor(session)
    assert workers[0](actor.play) in server.episodes


@pytest.mark.system
async def test_an_async_session_says_what_to_send_in_its_place(server) -> None:
    options = {"base_url": server.url, "api_key": "tml-test-key"}
    async with AsyncTinkerScript("SmolLM2", **options) as session, session.episode("a") as episode:
        for held in (session, episode):
            with pytest.raises(TypeError, match=r"send the session's .sync.*session_id="):
                cloudpickle.dumps(lambda held=held: held)
        assert cloudpickle.loads(cloudpickle.dumps(session.sync)) is session.sync
        await episode.abandon()
