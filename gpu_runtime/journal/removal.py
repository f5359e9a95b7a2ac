"""Taking out of the journal what it holds of episodes: the calls that the store has, and all that
is an erased episode's own.

Pruned are calls that are in the object store, from where ``trajectories/stored_calls.py`` gives
them to all that reads them. The rows of episodes, batches and steps stay. Kept are the calls of
whatever

- can still change: it is open, or waits for its step,
- is not yet in a stored part of the archive, or not yet told of, or its document is not in the
  store,
- a replay could train again: its step is later than the last committed state.

The episodes of one step are pruned when this holds for all of them: one advantage needs the whole
group.

Of an erased episode the row stays, with its id, fate, counts and reward. Those belong to others:
the accounting adds up, and statistics of its step stay. What the advantages of its batch were
computed of goes, so those of the others are kept as they were.
"""

import sqlite3
from collections.abc import Mapping, Sequence

from gpu_runtime.errors import RuntimeFault
from gpu_runtime.journal.database import Database
from gpu_runtime.journal.records import EpisodeRecord, dump
from tinkerscript.wire.episodes import EpisodeState, WorkflowOutput

ERASED = "erased"  # the reason of an erased episode
OF_CALLS = (
    "allowed_sets",
    "raw_logprobs",
    "routed_experts",
    "trainer_logprobs",
    "trainer_logprobs_after",
    "completions",
)
OF_EPISODE = (
    "calls", "episodes_to_report", "stored_documents", "reference_gaps", "reward_changes", "kept_advantages",
    "refused_calls",
)  # fmt: skip
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


class NotErasable(RuntimeFault):
    """Training still needs the episode, or it has not ended. Nothing was written."""

    code = "not_erasable"


def erasable_check(database: Database, record: EpisodeRecord, *, states: tuple[int, int]) -> None:
    """Raises NotErasable, with what to wait for. ``states``: the steps of the last two committed, 0
    for none.

    Both must have what the episode taught: the control plane may find the files of the last one
    damaged and take it back, and the next runtime trains what came after the one before it. One
    that was erased may be erased again.
    """
    if record.reason == ERASED:
        return
    if record.state is EpisodeState.OPEN:
        raise NotErasable("The episode is open: end it or abandon it first.")
    batched = database.row("SELECT step FROM batch_episodes WHERE episode_id = ?", record.id)
    if batched is not None and record.fate is None:
        raise NotErasable(
            f"The episode is in the batch of step {batched['step']}, which is being trained: wait "
            "for it."
        )
    step = record.trained_step
    if step is not None and (missing := sum(state < step for state in states)):
        raise NotErasable(
            f"Step {step} trained the episode, and a runtime that starts anew might have to train "
            "it again: it can be"
            f" erased once two state checkpoints of step {step} or later are committed. Order "
            f"{missing} more."
        )


def episode_scrub(
    database: Database, record: EpisodeRecord, advantages_beside: Mapping[str, Mapping[str, float]]
) -> None:
    """Take out of the tables what is the episode's own. One that waits for a step becomes stale.

    ``advantages_beside``: of each other episode of its batch, those of its calls. What was kept
    before stays.
    """
    output = (
        WorkflowOutput(reward=record.output.reward).model_dump_json() if record.output else None
    )
    with database.transaction() as sql:
        for table in OF_CALLS:
            query = (
                f"DELETE FROM {table} WHERE call_id IN (SELECT id FROM calls WHERE episode_id = ?)"
            )
            sql.execute(query, (record.id,))
        sql.execute(
            "UPDATE episodes SET task = NULL, group_key = NULL, begin_key = NULL, report = NULL, "
            "output = ?,"
            " reason = ?, fate = CASE WHEN state = 'completed' THEN ifnull(fate, 'stale') END "
            "WHERE id = ?",
            (output, ERASED, record.id),
        )
        kept = [(episode_id, dump(by_call)) for episode_id, by_call in advantages_beside.items()]
        sql.executemany("INSERT OR IGNORE INTO kept_advantages VALUES (?, ?)", kept)
        for table in OF_EPISODE:  # the outbox after the update, which notes a change there
            sql.execute(f"DELETE FROM {table} WHERE episode_id = ?", (record.id,))
