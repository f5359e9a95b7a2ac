"""Erasing what the journal has of one episode. Its row stays, with its id, fate, counts and reward.

Those belong to others: the accounting adds up, and advantages of its group can be computed again.
"""

from gpu_runtime.errors import RuntimeFault
from gpu_runtime.journal.database import Database
from gpu_runtime.journal.records import EpisodeRecord
from tinkerscript.wire.episodes import EpisodeState, WorkflowOutput

ERASED = "erased"  # the reason of an erased episode
OF_CALLS = ("allowed_sets", "completions")
OF_EPISODE = ("calls", "episodes_to_report", "stored_documents", "reference_gaps")


class NotErasable(RuntimeFault):
    """Training still needs the episode, or it has not ended. Nothing was written."""

    code = "not_erasable"


def erasable_check(database: Database, record: EpisodeRecord, *, committed_step: int) -> None:
    """Raises NotErasable, with what to wait for."""
    if record.state is EpisodeState.OPEN:
        raise NotErasable("The episode is open: end it or abandon it first.")
    batched = database.row("SELECT step FROM batch_episodes WHERE episode_id = ?", record.id)
    if batched is not None and record.fate is None:
        raise NotErasable(
            f"The episode is in the batch of step {batched['step']}, which is being trained: wait for it."
        )
    if record.trained_step is not None and record.trained_step > committed_step:
        raise NotErasable(
            f"Step {record.trained_step} trained the episode, and no later state is committed: a runtime that starts"
            " anew would have to train it again. Order a state checkpoint, and erase the episode once it is committed."
        )


def episode_scrub(database: Database, record: EpisodeRecord) -> None:
    """Take out of the tables what is the episode's own. One that waits for a step becomes stale."""
    kept = WorkflowOutput(reward=record.output.reward).model_dump_json() if record.output else None
    with database.transaction() as sql:
        for table in OF_CALLS:
            query = f"DELETE FROM {table} WHERE call_id IN (SELECT id FROM calls WHERE episode_id = ?)"
            sql.execute(query, (record.id,))
        sql.execute(
            "UPDATE episodes SET task = NULL, group_key = NULL, begin_key = NULL, report = NULL, output = ?,"
            " reason = ?, fate = CASE WHEN state = 'completed' THEN ifnull(fate, 'stale') END WHERE id = ?",
            (kept, ERASED, record.id),
        )
        for table in OF_EPISODE:  # the outbox after the update, which notes a change there
            sql.execute(f"DELETE FROM {table} WHERE episode_id = ?", (record.id,))
