"""Reports to the server that open episodes are alive, so that a slow tool does not count as idle.

One daemon thread per session. It never raises into user code, never keeps the process alive, and
ends at close().
"""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinkerscript.connection import forks
from tinkerscript.errors import ClientClosed, TinkerScriptError
from tinkerscript.wire.episodes import MAX_HEARTBEATS, EpisodesHeartbeatResult

from .episode_state import EpisodeState

MAX_INTERVAL_S = 10.0
RETRY_S = 2.0
log = logging.getLogger("tinkerscript")


def heartbeat_interval_s(idle_timeout_s: float) -> float:
    """Seconds between two heartbeats of an episode that expires after ``idle_timeout_s`` without
    one.
    """
    return min(MAX_INTERVAL_S, idle_timeout_s / 4)


@dataclass
class _Entry:
    state: EpisodeState
    in_use: "weakref.ref[object]"
    interval_s: float
    due: float  # time.monotonic()


class Heartbeats:
    """The open episodes of a session. ``beat(episode_ids)`` sends one for all; it may raise
    TinkerScriptError.

    The user's Episode is held weakly: when it was dropped, as by an agent that failed, no one works
    on the episode, and it gets no more heartbeats. The server then expires it.
    """

    def __init__(self, beat: Callable[[Sequence[str]], EpisodesHeartbeatResult]) -> None:
        self._beat = beat
        self._stopped = False
        self.after_fork()
        forks.watch(self)

    def after_fork(self) -> None:
        """No episode yet: those of the parent process are kept alive there."""
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, state: EpisodeState, user: object, *, idle_timeout_s: float) -> None:
        """Keep an episode alive while ``user`` exists: every quarter of its idle timeout, or more
        often.
        """
        interval_s = heartbeat_interval_s(idle_timeout_s)
        with self._lock:
            self._entries[state.id] = _Entry(
                state, weakref.ref(user), interval_s, time.monotonic() + interval_s
            )
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(
                    target=self._run, name="tinkerscript-heartbeats", daemon=True
                )
                self._thread.start()
        self._changed.set()

    def discard(self, episode_id: str) -> None:
        """Forget an episode that is over."""
        with self._lock:
            self._entries.pop(episode_id, None)

    def open_episodes(self) -> list[EpisodeState]:
        """Every episode that was not ended, in use or not."""
        with self._lock:
            return [entry.state for entry in self._entries.values()]

    def close(self, timeout_s: float = 10.0) -> None:
        """End the thread. Safe to call twice."""
        with self._lock:
            self._stopped = True
            thread = self._thread
        self._changed.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopped:
            self._changed.wait(self._seconds_to_next())
            self._changed.clear()
            try:
                self._beat_due()
            except Exception:  # the top of this thread: recorded, and the next round tries again
                log.exception("A heartbeat failed.")
                self._postpone()

    def _seconds_to_next(self) -> float | None:
        with self._lock:
            dues = [entry.due for entry in self._entries.values() if entry.in_use() is not None]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def _beat_due(self) -> None:
        due = self._due()
        for first in range(0, len(due), MAX_HEARTBEATS):
            if self._stopped:
                return
            some = dict(due[first : first + MAX_HEARTBEATS])
            for entry in some.values():
                entry.due = time.monotonic() + entry.interval_s
            try:
                result = self._beat(list(some))
            except ClientClosed:
                return
            except TinkerScriptError as failure:
                # The server is away, most likely for all of them: leave the rest of the round and
                # come back soon.
                log.debug("No heartbeat for %s: %s", ", ".join(some), failure)
                for entry in some.values():
                    entry.due = 0.0
                self._postpone()
                return
            for episode_id in result.over:
                self.discard(episode_id)  # end_episode() will say so to the user
            for episode_id, warning in result.warnings.items():
                some[episode_id].state.say(warning)

    def _due(self) -> list[tuple[str, _Entry]]:
        """If one episode is due, those too that soon will be: from then on they share a request."""
        now = time.monotonic()
        with self._lock:
            used = [
                (id_, entry) for id_, entry in self._entries.items() if entry.in_use() is not None
            ]
        if all(entry.due > now for _, entry in used):
            return []
        return [(id_, entry) for id_, entry in used if entry.due <= now + entry.interval_s / 2]

    def _postpone(self) -> None:
        """Leave what is due now until a moment later."""
        now = time.monotonic()
        with self._lock:
            for entry in self._entries.values():
                if entry.due <= now:
                    entry.due = now + min(RETRY_S, entry.interval_s)
