"""PostgreSQL as Django has it, with connections that are kept from one request to the next.

Under ASGI each request has a thread to itself and Django a connection for each thread, which ends with the request:
PostgreSQL then starts a process for each request, which costs it more than most requests do. Here a connection that is
closed waits for the next request of the process instead.

Django's own pool (psycopg_pool) is not used: it has a fixed number of connections, of which each thread that ends
without closing its own takes one for ever, a database that is away is a timeout without its reason, and PgBouncer is
there for who wants a bound.
"""

import select
import threading
import time
from typing import Any

import psycopg
from django.db.backends.postgresql import base, creation
from psycopg import Connection, IsolationLevel
from psycopg.pq import TransactionStatus

MAX_KEPT = 8  # of one process; what more it needed at once is closed when it has waited for LINGER_S
LINGER_S = 5.0  # a busy process needs them again at once, and each new one is a process that PostgreSQL starts
MAX_IDLE_S = 300.0  # firewalls forget quiet connections without a word

Parameters = dict[str, Any]


class KeptConnections:
    """Open connections that nobody uses, each with what it was opened with and since when. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[tuple[Parameters, Connection[Any], float]] = []
        self._is_closing = False  # while there are more than MAX_KEPT

    def keep(self, parameters: Parameters, connection: Connection[Any]) -> None:
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

    def take(self, parameters: Parameters) -> Connection[Any] | None:
        """The one that was used last, if it still works as far as can be seen without asking the database."""
        while True:
            with self._lock:
                at = next((at for at in reversed(range(len(self._kept))) if self._kept[at][0] == parameters), None)
                if at is None:
                    return None
                _, connection, since = self._kept.pop(at)
            if time.monotonic() - since < MAX_IDLE_S and _is_quiet(connection):
                return connection
            connection.close()

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            kept, self._kept = self._kept, []
        for _, connection, _ in kept:
            connection.close()


KEPT = KeptConnections()


class DatabaseCreation(creation.DatabaseCreation):
    """Of tests' databases: PostgreSQL drops none that has connections, and some of those are kept here.

    The connection that drops it is kept as well, and nobody takes it: a process that ends would leave it open.
    """

    def _destroy_test_db(self, test_database_name: str, verbosity: int) -> None:
        KEPT.close()
        try:
            super()._destroy_test_db(test_database_name, verbosity)  # type: ignore[misc] # the stubs lack it
        finally:
            KEPT.close()


class DatabaseWrapper(base.DatabaseWrapper):
    """One thread's connection."""

    creation_class = DatabaseCreation

    def get_new_connection(self, conn_params: Parameters) -> Any:
        """A kept one, or a new one."""
        self._opened_with = conn_params
        kept = KEPT.take(conn_params)
        if kept is None:
            return super().get_new_connection(conn_params)
        self.isolation_level = kept.isolation_level or IsolationLevel.READ_COMMITTED
        return kept

    def _close(self) -> None:
        """Keep it, unless a transaction is open in it or it is broken."""
        connection = self.connection
        if connection is None or connection.info.transaction_status != TransactionStatus.IDLE:
            super()._close()  # type: ignore[misc] # the stubs lack it
        else:
            KEPT.keep(self._opened_with, connection)


def _is_quiet(connection: Connection[Any]) -> bool:
    """Whether the server has said nothing since: all that it would say is that it has ended the connection."""
    try:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return not poll.poll(0)
    except psycopg.Error:  # it is closed already
        return False
