"""PostgreSQL as Django has it, with connections that are kept from one request to the next (kept_connections.py)."""

import select
from typing import Any

import psycopg
from django.db.backends.postgresql import base, creation
from psycopg import Connection, IsolationLevel
from psycopg.pq import TransactionStatus

from console.config.kept_connections import KeptConnections, Parameters


def _is_quiet(connection: Connection[Any]) -> bool:
    """Whether the server has said nothing since: all that it would say is that it has ended the connection."""
    try:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return not poll.poll(0)
    except psycopg.Error:  # it is closed already
        return False


KEPT = KeptConnections(_is_quiet)


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
        """Keep it, unless a transaction is open in it or it is broken.

        In a block of ``atomic`` Django goes on with it, and PostgreSQL hears of the block with its first statement.
        """
        connection = self.connection
        is_idle = connection is not None and connection.info.transaction_status == TransactionStatus.IDLE
        if is_idle and not self.in_atomic_block:
            KEPT.keep(self._opened_with, connection)
        else:
            super()._close()  # type: ignore[misc] # the stubs lack it
