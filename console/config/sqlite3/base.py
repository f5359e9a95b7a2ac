"""SQLite as Django has it, with connections that are kept from one request to the next (kept_connections.py)."""

import sqlite3
from typing import Any

from django.db.backends.sqlite3 import base, creation

from console.config.kept_connections import KeptConnections, Parameters


def _is_as_new(connection: sqlite3.Connection) -> bool:
    """Whether it checks foreign keys, as a new one does: who has turned that off may have closed it like that."""
    return connection.execute("PRAGMA foreign_keys").fetchone() == (1,)


KEPT = KeptConnections(_is_as_new)


class DatabaseCreation(creation.DatabaseCreation):
    """Of tests' databases: the next one's file may have the same name."""

    def _destroy_test_db(self, test_database_name: str, verbosity: int) -> None:
        KEPT.close()
        super()._destroy_test_db(test_database_name, verbosity)  # type: ignore[misc] # the stubs lack it


class DatabaseWrapper(base.DatabaseWrapper):
    """One thread's connection."""

    creation_class = DatabaseCreation

    def get_new_connection(self, conn_params: Parameters) -> Any:
        """A kept one, or a new one."""
        commands: list[str] = vars(self)["init_commands"]  # which the stubs of Django lack
        self._opened_with = conn_params | {"init": commands}
        return KEPT.take(self._opened_with) or super().get_new_connection(conn_params)

    def _close(self) -> None:
        """Keep it, unless a transaction is open in it.

        In a block of ``atomic`` Django goes on with it, though SQLite may have ended the transaction (a full disk).
        """
        if self.connection is None or self.connection.in_transaction or self.in_atomic_block:
            super()._close()  # type: ignore[misc] # the stubs lack it
        else:
            KEPT.keep(self._opened_with, self.connection)
