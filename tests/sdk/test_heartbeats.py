"""Open episodes are kept alive in the background, and the background ends."""

import copy
import gc
import json
import logging
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sdk.http_parts import Answer, error
from sdk.rest_server import API_KEY

from support.waiting import wait_until
from tinkerscript.episodes.episode_state import EpisodeState
from tinkerscript.episodes.heartbeats import Heartbeats, heartbeat_interval_s
from tinkerscript.wire.episodes import EpisodesHeartbeatResult

BEATS = "POST .*/heartbeats"


def heartbeat_threads():
    return [t for t in threading.enumerate() if t.name == "tinkerscript-heartbeats"]


@pytest.fixture
def some_beats_later(server, connect):
    """Waits for as long as ten heartbeats of another open episode take: time enough for one that
    must get none.
    """
    sessions = []

    def wait():
        if not sessions:
            sessions.append(connect())
        with sessions[0].episode() as other:
            wait_until(lambda: len(server.beats(other.id)) >= 10)
            sessions[0].end_episode(1.0)

    return wait


def test_open_episode_gets_heartbeats_until_it_ends(server, connect, some_beats_later):
    server.idle_timeout_s = 0.04
    session = connect()
    held = session.begin_episode()
    wait_until(lambda: len(server.beats(held.id)) >= 3)
    session.end_episode(1.0)
    seen = len(server.beats(held.id))
    some_beats_later()
    assert len(server.beats(held.id)) <= seen + 1  # one may have been under way


def test_interval_is_a_quarter_of_the_idle_timeout_and_at_most_ten_seconds():
    """Three of them are in the 30 s after which the server takes a silent client for gone."""
    assert heartbeat_interval_s(20.0) == 5.0
    assert heartbeat_interval_s(86_400.0) == 10.0


def test_all_open_episodes_share_a_heartbeat(server, connect):
    server.idle_timeout_s = 0.2
    session = connect()
    held = []
    threads = [
        threading.Thread(target=lambda: held.append(session.begin_episode())) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = {episode.id for episode in held}
    wait_until(
        lambda: any(set(json.loads(r.body)["episode_ids"]) == names for r in server.seen(BEATS))
    )
    assert not server.seen("POST .*/heartbeat")


def test_a_session_that_is_gone_gets_no_further_heartbeat(server, connect):
    server.idle_timeout_s = 0.04
    server.fail(BEATS, answer=error(404, "not_found"))
    session = connect()
    _held = session.begin_episode()
    wait_until(lambda: not session.heartbeats.open_episodes())
    assert len(server.seen(BEATS)) == 1


def test_the_page_of_a_proxy_ends_no_heartbeats(server, connect):
    server.idle_timeout_s = 0.04
    server.fail(BEATS, answer=Answer(404, b"<html>nothing here</html>"))
    session = connect()
    _held = session.begin_episode()
    wait_until(lambda: len(server.seen(BEATS)) >= 3)
    assert session.heartbeats.open_episodes()


def test_a_warning_that_comes_with_a_heartbeat_is_logged_once(server, connect, caplog):
    server.idle_timeout_s = 0.04
    session = connect()
    held = session.begin_episode()
    server.episodes[held.id] = server.episodes[held.id].model_copy(
        update={"warning": "the same prompt again"}
    )
    seen = len(server.beats(held.id))
    wait_until(lambda: len(server.beats(held.id)) >= seen + 5)
    assert caplog.text.count("the same prompt again") == 1


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


def test_heartbeat_thread_survives_an_unexpected_exception(session):
    beats, held = [], threading.Event()  # of any class whose objects can be referred to weakly

    def beat(episode_ids):
        beats.extend(episode_ids)
        raise RuntimeError("unexpected")

    heartbeats = Heartbeats(beat)
    heartbeats.add(EpisodeState(session, "epi_1", on_closed=print), held, idle_timeout_s=0.04)
    wait_until(lambda: len(beats) >= 3)
    assert set(beats) == {"epi_1"}
    heartbeats.close()


def test_heartbeats_go_on_after_the_server_was_away(server, connect, caplog):
    caplog.set_level(logging.DEBUG, "tinkerscript")
    server.idle_timeout_s = 0.04
    session = connect()
    _held = session.begin_episode()
    wait_until(lambda: server.seen(BEATS))
    server.stop()
    wait_until(lambda: "No heartbeat for" in caplog.text)
    seen = len(server.seen(BEATS))
    server.start()
    wait_until(lambda: len(server.seen(BEATS)) > seen)


def test_episode_that_is_over_on_the_server_gets_no_more_heartbeats(
    server, connect, some_beats_later
):
    server.idle_timeout_s = 0.04
    session = connect()
    episode = session.begin_episode()
    server.close_episode(episode.id, state="expired")
    wait_until(lambda: not session.heartbeats.open_episodes())
    seen = len(server.beats(episode.id))
    some_beats_later()
    assert len(server.beats(episode.id)) == seen


@pytest.mark.system
def test_episode_that_was_dropped_gets_no_more_heartbeats_but_can_be_ended(
    server, connect, some_beats_later
):
    server.idle_timeout_s = 0.04
    session = connect()
    episode = session.begin_episode()
    name = episode.id
    wait_until(lambda: server.beats(name))
    del episode
    gc.collect()
    seen = len(server.beats(name))
    some_beats_later()
    assert len(server.beats(name)) <= seen + 1  # one may have been under way
    assert session.end_episode(1.0).state == "completed"


def test_dropped_episode_gets_no_heartbeat_with_those_of_others():
    class Agent:
        """What an episode is in use by."""

    beaten, agent = [], Agent()

    def beat(episode_ids):
        beaten.append(list(episode_ids))
        return EpisodesHeartbeatResult(over=[], warnings={})

    def episode(name):
        return EpisodeState(None, name, on_closed=lambda state: None)

    beats = Heartbeats(beat)
    beats.add(episode("dropped"), Agent(), idle_timeout_s=0.04)
    beats.add(episode("used"), agent, idle_timeout_s=0.04)
    wait_until(lambda: len(beaten) >= 3)
    beats.close()
    assert {name for names in beaten for name in names} == {"used"}


def test_agent_that_failed_in_a_pool_does_not_look_alive(server, connect, some_beats_later):
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
        [failed] = server.episodes
        some_beats_later()
        seen = len(server.beats(failed))
        some_beats_later()
        assert len(server.beats(failed)) == seen
    session.close()
    assert server.episodes[failed].reason == "closed"


def unpacked(session):
    base_url, api_key = session.begin_episode()
    return api_key


def client_of(session):
    return session.begin_episode().openai()


@pytest.mark.system
@pytest.mark.parametrize("holder", [unpacked, client_of])
def test_a_holder_of_the_unpacked_key_or_a_client_gets_heartbeats(server, connect, holder):
    server.idle_timeout_s = 0.04
    session = connect()
    held = holder(session)
    gc.collect()
    seen = len(server.seen(BEATS))
    wait_until(lambda: len(server.seen(BEATS)) >= seen + 3)
    del held


def test_unpacked_key_is_a_plain_string_to_everyone_else(session):
    _, key = session.begin_episode()
    for copied in (
        pickle.loads(pickle.dumps(key)),
        copy.deepcopy(key),
        json.loads(json.dumps(key)),
    ):
        assert type(copied) is str
        assert copied == key
    assert key.startswith("tml-ep-")


@pytest.mark.system
def test_process_ends_with_an_episode_open_and_without_close(server):
    code = (
        "from tinkerscript import TinkerScript\n"
        f"TinkerScript('SmolLM2', base_url={server.url!r}, api_key={API_KEY!r}).begin_episode()\n"
    )
    server.idle_timeout_s = 0.2
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=60, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(server.episodes) == 1
