"""A session in forked processes, in spawned ones and in pickles: each process is a client of its
own.
"""

import asyncio
import copy
import logging
import multiprocessing
import os
import pickle
import threading

import pytest
from sdk.rest_server import API_KEY

from support.waiting import wait_until
from tinkerscript import AsyncTinkerScript, NoOpenEpisode, TinkerScript

fork = multiprocessing.get_context("fork")
spawn = multiprocessing.get_context("spawn")


def in_fork(function):
    """What ``function`` returns in a forked process; its exception's text when it raises."""
    reader, writer = fork.Pipe()

    def run():
        try:
            writer.send(function())
        except BaseException as failure:  # noqa: BLE001 - the test reads it
            writer.send(repr(failure))

    child = fork.Process(target=run)
    child.start()
    assert reader.poll(30), "the forked process did not return"
    said = reader.recv()
    child.join(25)
    assert child.exitcode == 0
    return said


def attempts(session, worker, count):
    """Ids as they were begun and as they were ended."""
    pairs = []
    for number in range(count):
        begun = session.begin_episode(task=f"{worker}-{number}")
        pairs.append((begun.id, session.end_episode(float(worker)).episode_id))
    return pairs


@pytest.mark.smoke
def test_six_forked_workers_never_get_one_anothers_episodes(server, session):
    session.status()  # a connection is open before the fork
    reader, writer = fork.Pipe()
    workers = [
        fork.Process(target=lambda worker=worker: writer.send(attempts(session, worker, 20)))
        for worker in range(6)
    ]
    for worker in workers:
        worker.start()
    pairs = []
    for _ in workers:
        assert reader.poll(60)
        pairs += reader.recv()
    for worker in workers:
        worker.join(25)
    assert all(begun == ended for begun, ended in pairs)
    assert len({begun for begun, _ in pairs}) == 120
    assert all(e.reward == float(e.task.split("-")[0]) for e in server.episodes.values())


def test_a_process_of_another_number_has_no_current_episode(session, monkeypatch):
    session.begin_episode(task="parent")
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        with pytest.raises(NoOpenEpisode):
            session.end_episode(0.0)
    assert session.end_episode(1.0).task == "parent"


@pytest.mark.system
def test_fork_neither_ends_nor_supersedes_its_parents_episode(server, session):
    mine = session.begin_episode(task="parent")

    def child():
        with pytest.raises(NoOpenEpisode):
            session.end_episode(0.0)
        session.begin_episode(task="child")
        return session.end_episode(0.5).task

    assert in_fork(child) == "child"
    assert server.episodes[mine.id].state == "open"
    assert session.end_episode(1.0).task == "parent"


@pytest.mark.system
def test_fork_sends_heartbeats_for_its_own_episodes_alone(server, session):
    server.idle_timeout_s = 0.4
    mine = session.begin_episode(task="parent")

    def child():
        held = session.begin_episode(task="child")
        wait_until(lambda: threading.active_count() > 1)
        return held.id, [state.id for state in session.heartbeats.open_episodes()]

    theirs, kept_alive = in_fork(child)
    assert kept_alive == [theirs] != [mine.id]


@pytest.mark.system
def test_fork_while_threads_hold_every_lock_does_not_hang(server, session, monkeypatch):
    # Python itself does not free the lock of a log's file in a fork; the SDK's own locks are what
    # is tried here.
    monkeypatch.setattr(logging.getLogger("httpx"), "disabled", True)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            session.begin_episode()
            session.end_episode(1.0)

    threads = [threading.Thread(target=busy) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert (
                in_fork(
                    lambda: (session.begin_episode(task="f"), session.end_episode(0.25).reward)[1]
                )
                == 0.25
            )
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.system
def test_close_in_a_fork_leaves_the_session_to_its_parent(server, session):
    assert (
        in_fork(lambda: (session.begin_episode(task="child"), session.close(), "closed")[2])
        == "closed"
    )
    assert server.sessions[session.id].state == "ready"
    assert [e.reason for e in server.episodes.values()] == ["closed"]
    assert session.begin_episode().is_open


@pytest.mark.system
@pytest.mark.parametrize("before", ["used", "unused"])
def test_an_async_session_in_a_fork_is_a_client_of_its_own(server, before):
    async def attempt(session, task):
        async with session.episode(task) as (base_url, api_key):
            assert base_url and api_key
            return (await session.end_episode(0.5)).task

    def child(session):
        async def loop():
            done = [await asyncio.wait_for(attempt(session, f"child {n}"), 60) for n in range(4)]
            await session.close()
            return done

        return asyncio.run(loop())

    async def parent():
        async with AsyncTinkerScript("m", base_url=server.url, api_key=API_KEY) as session:
            if before == "used":
                await session.begin_episode("parent")
            theirs = in_fork(lambda: child(session))
            assert theirs == [f"child {n}" for n in range(4)]
            assert server.sessions[session.id].state == "ready", (
                "a fork's close() does not stop what its parent uses"
            )
            assert [e.state for e in server.episodes.values() if e.task == "parent"] == ["open"] * (
                before == "used"
            )
            assert await attempt(session, "after") == "after"

    asyncio.run(parent())


def worker(session, number):
    """Module level: a spawned process imports it."""
    with session.episode(f"{number}") as (base_url, api_key):
        assert base_url and api_key
        return os.getpid(), session.id, session.end_episode(float(number)).reward


@pytest.mark.system
def test_spawned_workers_attach_by_id(server, session):
    with spawn.Pool(2) as pool:
        done = pool.starmap(worker, [(session, number) for number in range(6)])
    assert [(session_id, reward) for _, session_id, reward in done] == [
        (session.id, float(n)) for n in range(6)
    ]
    assert os.getpid() not in {process for process, _, _ in done}
    assert len(server.sessions) == 1
    assert server.sessions[session.id].state == "ready"


def test_pickle_here_is_the_same_session_and_elsewhere_an_attached_one(server, session):
    assert pickle.loads(pickle.dumps(session)) is session
    assert copy.deepcopy(session) is session
    attach, arguments = session.__reduce__()
    session.close(stop=False)
    again = attach(*arguments)
    assert again is not session
    assert isinstance(again, TinkerScript)
    assert again.id == session.id
    again.close()
    assert server.sessions[session.id].state == "ready"


@pytest.mark.system
def test_episode_goes_to_another_process_with_its_session(server, session):
    episode = session.begin_episode(task="a")
    with spawn.Pool(1) as pool:
        assert pool.apply(end_there, (episode,)) == (episode.id, 0.5)
    assert server.episodes[episode.id].reward == 0.5


def end_there(episode):
    return episode.id, episode.end(0.5).reward
