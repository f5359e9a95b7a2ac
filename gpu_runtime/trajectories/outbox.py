"""Which episodes the control plane has still to be told of, as the journal has it.

Triggers of the journal note each begin, end and change of fate in the transaction that makes it.
What is noted is taken off once the control plane has it: after a kill it is sent again, which
changes nothing there.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runtime.journal.journal import Journal


@dataclass(frozen=True)
class Due:
    """An episode to tell of. ``change`` counts its changes: one that comes later is told of
    again.
    """

    episode_id: str
    change: int


def rows_due(journal: Journal, limit: int) -> list[Due]:
    """Episodes whose row is not, or not as it is now, with the control plane; in the order of their
    begin.
    """
    # CROSS: SQLite would go through all episodes in their order, and look for each whether it is
    # due.
    rows = journal.database.rows(
        "SELECT episode_id, change FROM episodes_to_report CROSS JOIN episodes ON id = episode_id"
        " WHERE row_due ORDER BY seq LIMIT ?",
        limit,
    )
    return [Due(row["episode_id"], row["change"]) for row in rows]


def rows_reported(journal: Journal, told: Sequence[Due]) -> None:
    """The control plane has these rows."""
    with journal.database.transaction() as sql:
        sql.executemany(
            "UPDATE episodes_to_report SET row_due = 0 WHERE episode_id = ? AND change = ?",
            [(due.episode_id, due.change) for due in told],
        )
        _forget_done(sql, told)


def documents_due(journal: Journal, limit: int) -> list[Due]:
    """Ended episodes whose row is known to the control plane and whose document is not in the store
    as it is now.
    """
    rows = journal.database.rows(
        "SELECT episode_id, change FROM episodes_to_report CROSS JOIN episodes ON id = episode_id"
        " WHERE document_due AND NOT row_due ORDER BY ended_at, seq LIMIT ?",
        limit,
    )
    return [Due(row["episode_id"], row["change"]) for row in rows]


def documents_stored(journal: Journal, stored: Sequence[Due]) -> None:
    """The store has these documents. One whose episode was trained while it was stored is stored
    once more.
    """
    with journal.database.transaction() as sql:
        sql.executemany(
            "UPDATE episodes_to_report SET document_due = 0 WHERE episode_id = ? AND change = ?",
            [(due.episode_id, due.change) for due in stored],
        )
        sql.executemany(
            "INSERT OR IGNORE INTO stored_documents VALUES (?, 0)",
            [(due.episode_id,) for due in stored],
        )
        _forget_done(sql, stored)


def reporting_begin(journal: Journal) -> int:
    """Call it once, before anything is reported: the number of the last episode that this journal
    knows.

    A journal that came from its copy may be older than what was reported: what waits in it is told
    of again.
    """
    with journal.database.transaction() as sql:
        sql.execute(
            "INSERT INTO episodes_to_report SELECT id, 1, 1, 0 FROM episodes WHERE state = "
            "'completed' AND fate IS NULL"
            " ON CONFLICT (episode_id) DO UPDATE SET change = change + 1, row_due = 1"
        )
        return sql.execute("SELECT ifnull(max(seq), 0) FROM episodes").fetchone()[0]


def _forget_done(sql: sqlite3.Connection, told: Sequence[Due]) -> None:
    sql.executemany(
        "DELETE FROM episodes_to_report WHERE episode_id = ? AND NOT row_due AND NOT document_due",
        [(due.episode_id,) for due in told],
    )
