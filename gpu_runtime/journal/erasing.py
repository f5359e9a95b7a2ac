"""Erasing what the journal has of one episode. Its row stays, with its id, fate, counts and reward.

Those belong to others: the accounting adds up, and statistics of its step stay. What the advantages
of its batch were computed of goes, so those of the others are kept as they were.
"""

from collections.abc import Mapping

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
