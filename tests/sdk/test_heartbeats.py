"""Open episodes are kept alive in the background, and the background ends."""

import gc
import subprocess
import sys
import threading
import time

from sdk.rest_server import API_KEY, error, wait_until

BEATS = "POST .*/heartbeat"


def heartbeat_threads():
    return [t for t in threading.enumerate() if t.name == "tinkerscript-heartbeats"]


def test_open_episode_gets_heartbeats_until_it_ends(server, connect):
    server.idle_timeout_s = 0.04
    session = connect()
    session.begin_episode()
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
    session = connect()
    assert heartbeat_threads() == []
    session.begin_episode()
    [thread] = heartbeat_threads()
    assert thread.daemon
    session.close()
    assert not thread.is_alive()


def test_failing_heartbeats_never_reach_user_code_and_recover(server, connect):
    server.idle_timeout_s = 0.04
    server.fail(BEATS, times=2, answer=error(500, "internal"))
    server.fail(BEATS, times=2)
    session = connect()
    session.begin_episode()
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
    session.begin_episode()
    wait_until(lambda: len(beats) >= 2)
    assert heartbeat_threads()


def test_heartbeats_go_on_after_the_server_was_away(server, connect):
    server.idle_timeout_s = 0.04
    session = connect()
    session.begin_episode()
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
    wait_until(lambda: episode.id not in session.heartbeats.open_episodes())
    seen = len(server.seen(BEATS))
    time.sleep(0.05)
    assert len(server.seen(BEATS)) == seen


def test_episode_that_nobody_can_end_any_more_is_left_to_expire_but_closed_at_close(server, connect):
    session = connect()
    thread = threading.Thread(target=session.begin_episode)
    thread.start()
    thread.join()
    del thread
    gc.collect()
    [(episode_id, episode)] = session.heartbeats.open_episodes().items()
    assert episode is None
    session.close()
    assert server.episodes[episode_id].reason == "closed"


def test_process_ends_with_an_episode_open_and_without_close(server):
    code = (
        "from tinkerscript import TinkerScript\n"
        f"TinkerScript('SmolLM2', base_url={server.url!r}, api_key={API_KEY!r}).begin_episode()\n"
    )
    server.idle_timeout_s = 0.2
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(server.episodes) == 1
