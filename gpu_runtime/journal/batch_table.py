"""Batches and steps in the journal: what each step trains, fixed before it is trained, and what it
measured.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu_runtime.journal.database import Database
from gpu_runtime.journal.episode_table import EpisodeTable
from gpu_runtime.journal.records import BatchRecord, dump, refused_name
from gpu_runtime.journal.token_values import NO_VALUES, TokenValues, floats_pack


class BatchTable:
    """One batch per step; an episode is in at most one batch. ``now`` is Unix time."""

    def __init__(
        self, database: Database, episodes: EpisodeTable, now: Callable[[], float]
    ) -> None:
        self._database, self._episodes, self._now = database, episodes, now

    def record(self, step: int, groups: Sequence[Sequence[str]], policy_version: int) -> None:
        """Fix what step ``step`` trains, before it is trained. A second batch for a step, or an
        episode that is already in one, raises sqlite3.IntegrityError and changes nothing.
        """
        with self._database.transaction() as sql:
            sql.execute("INSERT INTO batches VALUES (?, ?, ?)", (step, policy_version, self._now()))
            flat = [
                (group, episode_id)
                for group, members in enumerate(groups)
                for episode_id in members
            ]
            sql.executemany(
                "INSERT INTO batch_episodes VALUES (?, ?, ?, ?)",
                [
                    (step, position, group, episode_id)
                    for position, (group, episode_id) in enumerate(flat)
                ],
            )

    def get(self, step: int) -> BatchRecord | None:
        """The batch of a step, or None."""
        with self._database.reading() as sql:
            return _fetch(sql, step)

    def after(self, step: int) -> list[BatchRecord]:
        """The batches of all later steps, in order: what a runtime resumed from step ``step``
        trains again.
        """
        rows = self._database.rows("SELECT step FROM batches WHERE step > ? ORDER BY step", step)
        return [batch for row in rows if (batch := self.get(row["step"]))]

    def discard(self, step: int, reason: str) -> None:
        """Undo a batch whose step was refused: its episodes become stale and the step number is
        free again.

        Its composition stays, for ``refused``.
        """
        with self._database.transaction() as sql:
            batch = self.get(step)
            if batch is None:
                return
            _insert_refused(sql, batch, reason, self._now())
            sql.execute("DELETE FROM batch_episodes WHERE step = ?", (step,))
            sql.execute("DELETE FROM batches WHERE step = ?", (step,))
            self._episodes.mark_stale(
                [episode_id for group in batch.groups for episode_id in group], reason
            )

    def set_aside(
        self, step: int, groups: Sequence[Sequence[str]], spreads: Sequence[float], reason: str
    ) -> list[float]:
        """Groups for step ``step`` that have no gradient: their episodes become stale with
        ``reason``, and a batch that holds them is undone, so that its number is free again. Returns
        ``level_groups``. ``spreads``: of each group.
        """
        with self._database.transaction() as sql:
            for episode_ids, spread in zip(groups, spreads, strict=True):
                sql.execute(
                    "INSERT OR IGNORE INTO level_groups VALUES (?, ?)", (episode_ids[0], step)
                )
                sql.execute(
                    "INSERT OR IGNORE INTO level_spreads VALUES (?, ?)", (episode_ids[0], spread)
                )
                sql.executemany(
                    "DELETE FROM batch_episodes WHERE episode_id = ?",
                    [(name,) for name in episode_ids],
                )
                self._episodes.mark_stale(episode_ids, reason)
            sql.execute(
                "DELETE FROM batches WHERE step = ? AND step NOT IN (SELECT step FROM "
                "batch_episodes)",
                (step,),
            )
            return self.level_groups(step)

    def level_groups(self, step: int) -> list[float]:
        """How far the answers spread of each group that was set aside for step ``step``."""
        rows = self._database.rows(
            "SELECT answers_distinct FROM level_groups JOIN level_spreads USING (first_episode_id)"
            " WHERE step = ? ORDER BY level_groups.rowid",
            step,
        )
        return [row["answers_distinct"] for row in rows]

    def record_gaps(self, gaps: Mapping[str, float]) -> None:
        """How far each episode is from the reference; what was recorded before stays."""
        with self._database.transaction() as sql:
            sql.executemany(
                "INSERT OR IGNORE INTO reference_gaps VALUES (?, ?)", list(gaps.items())
            )

    def gap(self, episode_id: str) -> float | None:
        """What ``record_gaps`` kept of an episode."""
        row = self._database.row("SELECT gap FROM reference_gaps WHERE episode_id = ?", episode_id)
        return row["gap"] if row else None

    def kept_advantages(self, episode_id: str) -> dict[str, float] | None:
        """Of each call of an episode, where another of its batch was erased: see ``removal.py``."""
        row = self._database.row(
            "SELECT by_call FROM kept_advantages WHERE episode_id = ?", episode_id
        )
        return json.loads(row["by_call"]) if row else None

    def name_of(self, episode_id: str) -> str | None:
        """The name of the batch that has an episode: the number of its step, or that of a refused
        one; or None.
        """
        row = self._database.row(
            "SELECT step AS name FROM batch_episodes WHERE episode_id = ? UNION ALL SELECT name "
            "FROM refused_batches,"
            " json_each(composition) AS of_group, json_each(of_group.value) AS member WHERE "
            "member.value = ?",
            episode_id, episode_id,
        )  # fmt: skip
        return str(row["name"]) if row else None

    def refused(self, name: str) -> tuple[BatchRecord, str, float] | None:
        """A refused batch by its ``refused_name``, why it was refused, and when; or None."""
        row = self._database.row("SELECT * FROM refused_batches WHERE name = ?", name)
        return _read_refused(row) if row else None

    def step_done(
        self,
        step: int,
        metrics: dict[str, Any],
        before: TokenValues = NO_VALUES,
        after: TokenValues = NO_VALUES,
    ) -> bool:
        """The step is done: its episodes are trained. False (and no change) when it was recorded
        before.

        ``before`` and ``after``: the trainer's own log-probabilities before and after it, of each
        token of each answer. The documents of the episodes that have some are stored once more.
        """
        with self._database.transaction() as sql:
            if sql.execute("SELECT 1 FROM steps WHERE step = ?", (step,)).fetchone():
                return False
            sql.execute("INSERT INTO steps VALUES (?, ?, ?)", (step, dump(metrics), self._now()))
            sql.execute(
                "UPDATE episodes SET fate = 'trained', trained_step = ? WHERE state = 'completed' "
                "AND fate IS NULL"
                " AND id IN (SELECT episode_id FROM batch_episodes WHERE step = ?)",
                (step, step),
            )
            _insert_trainer_logprobs(sql, before, after)
            return True

    def step_metrics(self, step: int) -> dict[str, Any] | None:
        """What was recorded of a completed step, or None."""
        row = self._database.row("SELECT metrics FROM steps WHERE step = ?", step)
        return json.loads(row["metrics"]) if row else None

    def latest_step(self) -> int:
        """The number of the last completed step; 0 before the first."""
        row = self._database.row("SELECT ifnull(max(step), 0) AS step FROM steps")
        assert row is not None, "an aggregate always has a row"
        return row["step"]


def _fetch(sql: sqlite3.Connection, step: int) -> BatchRecord | None:
    """The batch of a step, or None."""
    row = sql.execute("SELECT * FROM batches WHERE step = ?", (step,)).fetchone()
    if row is None:
        return None
    members = sql.execute(
        "SELECT group_index, episode_id FROM batch_episodes WHERE step = ? ORDER BY position",
        (step,),
    ).fetchall()
    groups: dict[int, list[str]] = {}
    for member in members:
        groups.setdefault(member["group_index"], []).append(member["episode_id"])
    return BatchRecord(step, row["policy_version"], tuple(tuple(ids) for ids in groups.values()))


def _insert_refused(sql: sqlite3.Connection, batch: BatchRecord, reason: str, now: float) -> None:
    """Keep what a refused batch was made of."""
    row = (
        refused_name(batch.groups),
        batch.step,
        batch.policy_version,
        dump(batch.groups),
        reason,
        now,
    )
    sql.execute("INSERT INTO refused_batches VALUES (?, ?, ?, ?, ?, ?)", row)


def _read_refused(row: sqlite3.Row) -> tuple[BatchRecord, str, float]:
    """A refused batch, why it was refused, and when."""
    groups = tuple(tuple(group) for group in json.loads(row["composition"]))
    return (
        BatchRecord(row["step"], row["policy_version"], groups),
        row["reason"],
        row["refused_at"],
    )


def _insert_trainer_logprobs(
    sql: sqlite3.Connection, before: TokenValues, after: TokenValues
) -> None:
    """Keep them, and note that the documents of their episodes are to be stored with them.

    Within the transaction that makes these episodes trained, which has noted their rows.
    """
    for table, logprobs in (("trainer_logprobs", before), ("trainer_logprobs_after", after)):
        sql.executemany(
            f"INSERT INTO {table} VALUES (?, ?, ?)",
            [
                (call_id, choice, floats_pack(values))
                for (call_id, choice), values in logprobs.items()
            ],
        )
    sql.executemany(
        "UPDATE episodes_to_report SET document_due = 1 WHERE episode_id = (SELECT episode_id FROM "
        "calls WHERE id = ?)",
        [(call_id,) for call_id in dict.fromkeys(call_id for call_id, _ in (*before, *after))],
    )
