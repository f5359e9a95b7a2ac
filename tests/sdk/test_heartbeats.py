"""Open episodes are kept alive in the background, and the background ends."""

import copy
import gc
import json
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sdk.rest_server import API_KEY, error, wait_until

BEATS = "POST .*/heartbeat"


def heartbeat_threads():
    return [t for t in threading.enumerate() if t.name == "tinkerscript-heartbeats"]


def test_open_episode_gets_heartbeats_until_it_ends(server, connect):
    server.idle_timeout_s = 0.04
    session = connect()
    _held = session.begin_episode()
    wait_until(lambda: len(server.seen(BEATS)) >= 3)
    session.end_episode(1.0)
    seen = len(server.seen(BEATS))
    time.sleep(0.1)
    assert len(server.seen(BEATS)) <= seen + 1  # one may have been under way


def test_interval_is_a_quarter_of_the_idle_timeout_and_at_most_thirty_seconds(server, connect):
    session = connect()
    for idle_timeout_s, interval_s in ((100.0, 25.0), (86_400.0, 30.0)):
        server.idle_timeout_s = idle_timeout_s
        episode = session.begin_episode()
        assert session.heartbeats._entries[episode.id].interval_s == interval_s


def test_thread_is_a_daemon_and_ends_at_close(server, connect):
    others = set(heartbeat_threads())  # of sessions that other tests left open
    session = connect()
    assert set(heartbeat_threads()) == others
    _held = session.begin_episode()
    [thread] = set(heartbeat_threads()) - others
    assert thread.daemon
    session.close()
    assert not thread.is_alive()


def test_failing_heartbeats_never_reach_user_code_and_recover(server, connect):
    server.idle_timeout_s = 0.04
    server.fail(BEATS, times=2, answer=error(500, "internal"))
    server.fail(BEATS, times=2)
    session = connect()
    _held = session.begin_episode()
    wait_until(lambda: len(server.seen(BEATS)) >= 6)
    assert session.end_episode(1.0).state == "completed"


def test_heartbeat_thread_survives_an_unexpected_exception(server, connect, monkeypatch):
    server.idle_timeout_s = 0.04
    session = connect()
    beats = []

    def beat(episode_id):
        beats.append(episode_id)
        raise RuntimeError("unexpected")

    monkeypatch.setattr(session.heartbeats, "_beat", beat)
    _held = session.begin_episode()
    wait_until(lambda: len(beats) >= 2)
    assert heartbeat_threads()


def test_heartbeats_go_on_after_the_server_was_away(server, connect):
    server.idle_timeout_s = 0.04
    session = connect()
    _held = session.begin_episode()
    wait_until(lambda: server.seen(BEATS))
    server.stop()
    time.sleep(0.05)
    seen = len(server.seen(BEATS))
    server.start()
    wait_until(lambda: len(server.seen(BEATS)) > seen)


def test_episode_that_is_over_on_the_server_gets_no_more_heartbeats(server, connect):
    server.idle_timeout_s = 0.04
    session = connect()
    episode = session.begin_episode()
    server._close(episode.id, state="expired")
    wait_until(lambda: not session.heartbeats.open_episodes())
    seen = len(server.seen(BEATS))
    time.sleep(0.05)
    assert len(server.seen(BEATS)) == seen


def test_episode_that_was_dropped_gets_no_more_heartbeats_but_can_be_ended(server, connect):
    server.idle_timeout_s = 0.04
    session = connect()
    episode = session.begin_episode()
    wait_until(lambda: server.seen(BEATS))
    del episode
    gc.collect()
    seen = len(server.seen(BEATS))
    time.sleep(0.1)
    assert len(server.seen(BEATS)) <= seen + 1  # one may have been under way
    assert session.end_episode(1.0).state == "completed"


def test_agent_that_failed_in_a_pool_does_not_look_alive(server, connect):
    server.idle_timeout_s = 0.04
    session = connect()

    def rollout():
        try:
            api_baseurl_key = session.begin_episode()
            base_url, api_key = api_baseurl_key
            raise RuntimeError(f"the agent failed at {base_url} with {api_key}")
        except RuntimeError:
            return 0.0

    with ThreadPoolExecutor(1) as pool:
        pool.submit(rollout).result()
        time.sleep(0.05)
        seen = len(server.seen(BEATS))
        time.sleep(0.1)
        assert len(server.seen(BEATS)) <= seen + 1
    session.close()
    assert [e.reason for e in server.episodes.values()] == ["closed"]


def unpacked(session):
    base_url, api_key = session.begin_episode()
    return api_key


def client_of(session):
    return session.begin_episode().openai()


@pytest.mark.parametrize("holder", [unpacked, client_of])
def test_whoever_holds_the_unpacked_key_or_a_client_gets_heartbeats(server, connect, holder):
    server.idle_timeout_s = 0.04
    session = connect()
    held = holder(session)
    gc.collect()
    seen = len(server.seen(BEATS))
    wait_until(lambda: len(server.seen(BEATS)) >= seen + 3)
    del held


def test_unpacked_key_is_a_plain_string_to_everyone_else(session):
    _, key = session.begin_episode()
    for copied in (pickle.loads(pickle.dumps(key)), copy.deepcopy(key), json.loads(json.dumps(key))):
        assert type(copied) is str
        assert copied == key
    assert key.startswith("tml-ep-")


def test_process_ends_with_an_episode_open_and_without_close(server):
    code = (
        "from tinkerscript import TinkerScript\n"
        f"TinkerScript('SmolLM2', base_url={server.url!r}, api_key={API_KEY!r}).begin_episode()\n"
    )
    server.idle_timeout_s = 0.2
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(server.episodes) == 1
