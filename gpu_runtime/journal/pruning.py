"""Which ended episodes need their calls in the journal no longer, and taking those out.

Their calls are in the object store, from where ``trajectories/stored_calls.py`` gives them to all
that reads them. The rows of episodes, batches and steps stay. Kept are the calls of whatever

- can still change: it is open, or waits for its step,
- is not yet in a stored part of the archive, or not yet told of, or its document is not in the store,
- a replay could train again: its step is later than the last committed state.

The episodes of one step are pruned when this holds for all of them: one advantage needs the whole
group.
"""

import sqlite3
from collections.abc import Sequence

from gpu_runtime.errors import RuntimeFault
from gpu_runtime.journal.database import Database
from gpu_runtime.journal.erasing import OF_CALLS

AT_ONCE = 200  # episodes of one transaction: the gateway writes between two


class CallsPruned(RuntimeFault):
    """The calls of an episode were asked of the journal, which has them no longer. Read them from
    the store.
    """

    code = "calls_pruned"


def episodes_prunable(database: Database, *, committed_step: int) -> list[str]:
    """Episodes whose calls may go, in the order of their begin. ``committed_step`` is the last
    committed state's.
    """
    rows = database.rows(
        # from what is not pruned, and what is due, on: both stay as small in a long run
        "SELECT id FROM stored_documents CROSS JOIN episodes ON id = stored_documents.episode_id"
        " JOIN archived_episodes ON archived_episodes.episode_id = id"
        " JOIN archive_parts ON part = number AND stored"
        " WHERE NOT pruned AND (state IN ('abandoned', 'expired') OR fate IS NOT NULL)"
        " AND ifnull(trained_step, 0) <= ?"
        " AND id NOT IN (SELECT episode_id FROM episodes_to_report)"
        " AND id NOT IN (SELECT mine.episode_id FROM episodes_to_report AS due"
        " CROSS JOIN batch_episodes AS other ON other.episode_id = due.episode_id"
        " CROSS JOIN batch_episodes AS mine ON mine.step = other.step)"
        " ORDER BY seq",
        committed_step,
    )
    return [row["id"] for row in rows]


def episodes_prune(database: Database, episode_ids: Sequence[str]) -> None:
    """Take the calls of these out of the journal: all of an episode's or none, whenever this
    process is killed.
    """
    for start in range(0, len(episode_ids), AT_ONCE):
        names = [(each,) for each in episode_ids[start : start + AT_ONCE]]
        with database.transaction() as sql:
            for table in OF_CALLS:
                sql.executemany(
                    f"DELETE FROM {table} WHERE call_id IN (SELECT id FROM calls WHERE episode_id "
                    "= ?)",
                    names,
                )
            sql.executemany("DELETE FROM calls WHERE episode_id = ?", names)
            sql.executemany("UPDATE stored_documents SET pruned = 1 WHERE episode_id = ?", names)


def pruned_among(sql: sqlite3.Connection, episode_ids: Sequence[str]) -> list[str]:
    """Those of these episodes whose calls only the store has."""
    query = "SELECT 1 FROM stored_documents WHERE episode_id = ? AND pruned"
    return [each for each in episode_ids if sql.execute(query, (each,)).fetchone()]
