"""What is changed while a session runs: options between two steps, and rewards before they are
trained.

A step that is done again after a kill has the options that it had before: they are a function of
the journal and of the number of the step. Each change of a reward stays, with what was there before
and who made it.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from gpu_runtime.journal.database import Database
from gpu_runtime.journal.episode_table import EpisodeTable
from gpu_runtime.journal.records import EpisodeRecord, dump
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import (
    EpisodesRescored,
    EpisodeState,
    RewardChange,
    SampleFate,
    WorkflowOutput,
)
from tinkerscript.wire.training.changes import ConfigChange


class ChangeTable:
    """Which step each change of options holds for first. ``now`` is Unix time."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._database, self._now = database, now

    def config_at(
        self, config: SessionConfig, step: int, *, until: float | None = None
    ) -> SessionConfig:
        """What ``step`` is trained with in a session that began with ``config``.

        ``until``: when its batch was refused. Later changes are of another batch of that number.
        """
        rows = self._database.rows(
            "SELECT options FROM config_changes WHERE first_step <= ? AND at <= ? ORDER BY seq",
            step,
            float("inf") if until is None else until,
        )
        options = {name: value for row in rows for name, value in _options(row).items()}
        return config.model_copy(update=options) if options else config

    def record(
        self, first_step: int, config: SessionConfig, options: Mapping[str, float], caller: str
    ) -> ConfigChange:
        """Let ``options`` hold for ``first_step`` and what follows it.

        A request that its caller sends again returns the change that it made; one whose values hold
        already returns a change of nothing, with the number 0.
        """
        with self._database.transaction() as sql:
            now = self.config_at(config, first_step)
            new = {name: value for name, value in options.items() if getattr(now, name) != value}
            last = sql.execute("SELECT * FROM config_changes ORDER BY seq DESC LIMIT 1").fetchone()
            if not new:
                is_again = last and last["caller"] == caller and _options(last) == dict(options)
                return (
                    _config_change(last)
                    if is_again
                    else ConfigChange(
                        seq=0, first_step=first_step, options={}, was={}, at=self._now()
                    )
                )
            was = {name: getattr(now, name) for name in new}
            sql.execute(
                "INSERT INTO config_changes (first_step, options, was, caller, at)"
                " VALUES (?, ?, ?, ?, ?)",
                (first_step, dump(new), dump(was), caller, self._now()),
            )
            return _config_change(
                sql.execute("SELECT * FROM config_changes ORDER BY seq DESC LIMIT 1").fetchone()
            )


def _options(row: sqlite3.Row) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(row["options"])
    return found


def _config_change(row: sqlite3.Row) -> ConfigChange:
    return ConfigChange(
        seq=row["seq"],
        first_step=row["first_step"],
        options=_options(row),
        was=json.loads(row["was"]),
        at=row["at"],
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
        return [(_reward_change(row), row["caller"]) for row in rows]

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


def _reward_change(row: sqlite3.Row) -> RewardChange:
    return RewardChange(
        seq=row["seq"],
        episode_id=row["episode_id"],
        was=row["was"],
        reward=row["reward"],
        at=row["at"],
    )
