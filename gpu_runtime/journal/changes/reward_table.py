"""Rewards that are replaced before they are trained: each change stays, with what was there before
and who made it.
"""

import sqlite3
from collections.abc import Callable, Mapping

from gpu_runtime.journal.database import Database
from gpu_runtime.journal.episode_table import EpisodeTable
from gpu_runtime.journal.records import EpisodeRecord
from tinkerscript.wire.episodes import (
    EpisodesRescored,
    EpisodeState,
    RewardChange,
    SampleFate,
    WorkflowOutput,
)


class RewardTable:
    """``now`` is Unix time."""

    def __init__(
        self, database: Database, episodes: EpisodeTable, now: Callable[[], float]
    ) -> None:
        self._database, self._episodes, self._now = database, episodes, now

    def rescore(self, rewards: Mapping[str, float], caller: str) -> EpisodesRescored:
        """Give these episodes these rewards where they wait to be trained; the others are named
        with the reason.

        An episode that a journaled batch has is refused: its step is done again after a restart, to
        the same bits.
        """
        changes: list[RewardChange] = []
        unchanged: list[str] = []
        refused: dict[str, str] = {}
        with self._database.transaction() as sql:
            for episode_id, reward in rewards.items():
                record = self._episodes.get(episode_id)
                if why := _refusal(sql, record):
                    refused[episode_id] = why
                    continue
                assert record is not None and record.output is not None, "it waits"
                if record.output.reward != reward:
                    changes.append(self._change(sql, record, record.output, reward, caller))
                elif (last := self._last(episode_id, caller)) is not None:
                    changes.append(last)
                else:
                    unchanged.append(episode_id)
        return EpisodesRescored(changes=changes, unchanged=unchanged, refused=refused)

    def as_ended(self, record: EpisodeRecord) -> WorkflowOutput | None:
        """The output that an episode was ended with, whatever its reward is now."""
        first = self._database.row(
            "SELECT was FROM reward_changes WHERE episode_id = ? ORDER BY seq LIMIT 1", record.id
        )
        if first is None or record.output is None:
            return record.output
        return record.output.model_copy(update={"reward": first["was"]})

    def changes_of(self, episode_id: str) -> list[tuple[RewardChange, str]]:
        """Every change of an episode's reward, in order, and who made it."""
        rows = self._database.rows(
            "SELECT * FROM reward_changes WHERE episode_id = ? ORDER BY seq", episode_id
        )
        return [(_read(row), row["caller"]) for row in rows]

    def _change(
        self,
        sql: sqlite3.Connection,
        record: EpisodeRecord,
        output: WorkflowOutput,
        reward: float,
        caller: str,
    ) -> RewardChange:
        at = self._now()
        added = sql.execute(
            "INSERT INTO reward_changes (episode_id, was, reward, caller, at) VALUES (?, ?, ?, ?, "
            "?)",
            (record.id, output.reward, reward, caller, at),
        )
        new = output.model_copy(update={"reward": reward})
        sql.execute(
            "UPDATE episodes SET output = ?, reward = ? WHERE id = ?",
            (new.model_dump_json(), reward, record.id),
        )
        sql.execute(  # the control plane is told
            "INSERT INTO episodes_to_report VALUES (?, 1, 1, 0)"
            " ON CONFLICT (episode_id) DO UPDATE SET change = change + 1, row_due = 1",
            (record.id,),
        )
        assert added.lastrowid is not None, "it was inserted"
        return RewardChange(
            seq=added.lastrowid, episode_id=record.id, was=output.reward, reward=reward, at=at
        )

    def _last(self, episode_id: str, caller: str) -> RewardChange | None:
        """The last change, where this caller made it: a request that is sent again returns what it
        did first.
        """
        changes = self.changes_of(episode_id)
        return changes[-1][0] if changes and changes[-1][1] == caller else None


def _refusal(sql: sqlite3.Connection, record: EpisodeRecord | None) -> str | None:
    """Why the reward of an episode stays as it is; None where it waits to be trained."""
    if record is None:
        return "this session has no such episode"
    if record.state is EpisodeState.OPEN:
        return "it is open: it is ended with its reward"
    if record.state is not EpisodeState.COMPLETED:
        return f"it is {record.state.value}: it has no reward"
    if record.eval:
        return "it is an evaluation: its reward was measured, and trains nothing"
    if record.fate is SampleFate.TRAINED:
        return f"step {record.trained_step} trained it with its reward, which stays as it was"
    if record.fate is not None:
        return f"it is {record.fate.value}: it trains nothing any more"
    batch = sql.execute(
        "SELECT step FROM batch_episodes WHERE episode_id = ?", (record.id,)
    ).fetchone()
    return f"it is in the batch of step {batch['step']}, which is fixed" if batch else None


def _read(row: sqlite3.Row) -> RewardChange:
    return RewardChange(
        seq=row["seq"],
        episode_id=row["episode_id"],
        was=row["was"],
        reward=row["reward"],
        at=row["at"],
    )
