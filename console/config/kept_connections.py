"""Connections to the database that are kept from one request to the next.

Under ASGI each request has a thread to itself and Django a connection for each thread, which ends with the request or
while it waits for something else. To open one anew costs more than most requests do: PostgreSQL starts a process for
it, of SQLite's file the whole schema is read. Here a connection that is closed waits for the next request of the
process instead.

Django's own pool (psycopg_pool) is not used: it has a fixed number of connections, of which each thread that ends
without closing its own takes one for ever, a database that is away is a timeout without its reason, and PgBouncer is
there for who wants a bound.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

MAX_KEPT = 8  # of one process; what more it needed at once is closed when it has waited for LINGER_S
LINGER_S = 5.0  # a busy process needs them again at once
MAX_IDLE_S = 300.0  # firewalls forget quiet connections without a word

Parameters = dict[str, Any]


class KeptConnections:
    """Open connections that nobody uses, each with what it was opened with and since when. For any thread.

    ``is_usable`` is asked before the next user gets one: whether it still works, as far as can be seen at no cost.
    """

    def __init__(self, is_usable: Callable[[Any], bool]) -> None:
        self._is_usable = is_usable
        self._lock = threading.Lock()
        self._kept: list[tuple[Parameters, Any, float]] = []
        self._is_closing = False  # while there are more than MAX_KEPT

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, parameters: Parameters, connection: Any) -> None:
        """Have it wait for its next user. Where there are too many, those that waited longest are closed soon."""
        with self._lock:
            self._kept.append((parameters, connection, time.monotonic()))
            if len(self._kept) <= MAX_KEPT or self._is_closing:
                return
            self._is_closing = True
        threading.Thread(target=self._close_surplus, name="connections-closing", daemon=True).start()

    def _close_surplus(self) -> None:
        """Those that were not needed within LINGER_S: the last used are taken first, so they stand at the front."""
        while self._is_closing:
            time.sleep(LINGER_S)
            surplus, now = [], time.monotonic()
            with self._lock:
                while len(self._kept) > MAX_KEPT and now - self._kept[0][2] >= LINGER_S:
                    surplus.append(self._kept.pop(0))
                self._is_closing = len(self._kept) > MAX_KEPT
            for _, connection, _ in surplus:
                connection.close()

    def take(self, parameters: Parameters) -> Any | None:
        """The one that was used last, if it is usable."""
        while True:
            with self._lock:
                at = next((at for at in reversed(range(len(self._kept))) if self._kept[at][0] == parameters), None)
                if at is None:
                    return None
                _, connection, since = self._kept.pop(at)
            if time.monotonic() - since < MAX_IDLE_S and self._is_usable(connection):
                return connection
            connection.close()

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            kept, self._kept = self._kept, []
        for _, connection, _ in kept:
            connection.close()
