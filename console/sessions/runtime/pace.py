"""When a runtime is to send its next heartbeat: each second, and less often where this process is
sent very many.

A heartbeat costs this process and the database the same however little it says. What a runtime has
to tell it tells within its second all the same (``gpu_runtime.health.status``); what waits for its
next heartbeat are its orders, the counts of its episodes and the end of its time in ``usage``.
"""

import random
import threading
import time
from collections.abc import Callable

BEATS_A_SECOND = 100  # of one process: about half of a core (docs/capacity.md)
# The most: two heartbeats may be lost before a lease is over, and an idle connection is kept for
# longer (5 s).
LEAST_S, MOST_S = 1.0, 4.0
SPREAD = 0.1  # either way, so that runtimes that began together do not stay together
WINDOW_S = 5.0  # longer than MOST_S with its spread: whoever lives is heard in it


class Pace:
    """Counts the runtimes that this process hears by two sets that take turns: what it asks is
    asked of no database.

    Where runtimes come to several processes by turns, each counts them all, and their pace is
    slower than it need be.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._clock, self._spread, self._lock = clock, spread, threading.Lock()
        self._heard: set[str] = set()
        self._began, self._before = clock(), 0

    def next_s(self, session_id: str) -> float:
        """In how many seconds the runtime of this session, which is heard now, is to be heard
        again.
        """
        with self._lock:
            passed_s = self._clock() - self._began
            if passed_s >= WINDOW_S:
                self._before = len(self._heard) if passed_s < 2 * WINDOW_S else 0
                self._heard, self._began = set(), self._clock()
            self._heard.add(session_id)
            pace_s = max(self._before, len(self._heard)) / BEATS_A_SECOND
        return (
            max(LEAST_S, min(pace_s, MOST_S) * self._spread(1 - SPREAD, 1 + SPREAD))
            if pace_s > LEAST_S
            else LEAST_S
        )


PACE = Pace()
