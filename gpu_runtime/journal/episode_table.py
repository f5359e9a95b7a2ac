"""Episodes in the journal: how they begin and end, and where each one is in the accounting."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpu_runtime.journal.database import Database
from gpu_runtime.journal.records import EpisodeRecord, dump
from gpu_runtime.journal.schema import EpisodeNotOpen
from tinkerscript.wire.episodes import EpisodeState, RefusedCalls, SampleFate, WorkflowOutput
from tinkerscript.wire.sessions import Accounting

WAITING = "state = 'completed' AND fate IS NULL AND NOT eval"


class EpisodeTable:
    """``now`` is Unix time. Writes raise DiskFull when the disk has no room."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._database, self._now = database, now

    def begin(
        self,
        episode_id: str,
        *,
        task: str | None,
        eval: bool,
        deadline_at: float,
        begin_key: str | None = None,
    ) -> EpisodeRecord:
        """A new open episode. ``begin_key`` is the caller's idempotency key; see ``of_begin``."""
        self._database.check_room()
        with self._database.transaction() as sql:
            sql.execute(
                "INSERT INTO episodes (id, begin_key, task, group_key, eval, begun_at, deadline_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (episode_id, begin_key, task, task, int(eval), self._now(), deadline_at),
            )
            return self._known(episode_id)

    def end(self, episode_id: str, output: WorkflowOutput, report: dict[str, Any]) -> EpisodeRecord:
        """Complete an open episode. ``report`` must hold ``timelines``. Raises EpisodeNotOpen."""
        with self._database.transaction() as sql:
            self.require_open(episode_id)
            sql.execute(
                "UPDATE episodes SET state = 'completed', fate = CASE WHEN eval THEN 'eval' END, "
                "output = ?,"
                " reward = ?, report = ?, ended_at = ?,"
                " end_seq = (SELECT 1 + ifnull(max(end_seq), 0) FROM episodes) WHERE id = ?",
                (output.model_dump_json(), output.reward, dump(report), self._now(), episode_id),
            )
            return self._known(episode_id)

    def abandon(self, episode_id: str, reason: str) -> EpisodeRecord:
        """End an open episode without a sample. Raises EpisodeNotOpen."""
        return self._drop(episode_id, "abandoned", reason)

    def expire(self, episode_id: str, reason: str) -> EpisodeRecord:
        """End an open episode whose deadline or idle time has passed. Raises EpisodeNotOpen."""
        return self._drop(episode_id, "expired", reason)

    def make_eval(self, episode_id: str, reason: str) -> None:
        """An open episode that is not trained after all, for ``reason``. Raises EpisodeNotOpen."""
        with self._database.transaction() as sql:
            self.require_open(episode_id)
            sql.execute(
                "UPDATE episodes SET eval = 1, reason = ? WHERE id = ?", (reason, episode_id)
            )

    def mark_stale(self, episode_ids: Sequence[str], reason: str) -> None:
        """Waiting episodes that will not be trained. Others of the list are left as they are."""
        with self._database.transaction() as sql:
            for episode_id in episode_ids:
                sql.execute(
                    f"UPDATE episodes SET fate = 'stale', reason = ? WHERE id = ? AND {WAITING}",
                    (reason, episode_id),
                )

    def get(self, episode_id: str) -> EpisodeRecord | None:
        """One episode, or None."""
        return self._one("SELECT * FROM episodes WHERE id = ?", episode_id)

    def of_begin(self, begin_key: str) -> EpisodeRecord | None:
        """The episode that an earlier ``begin`` with this idempotency key made."""
        return self._one("SELECT * FROM episodes WHERE begin_key = ?", begin_key)

    def page(self, *, before: int | None = None, limit: int = 100) -> list[EpisodeRecord]:
        """Newest first, those with ``seq`` below ``before``."""
        query = "SELECT * FROM episodes WHERE seq < ? ORDER BY seq DESC LIMIT ?"
        return self._list(query, before or 2**62, max(1, limit))

    def open(self) -> list[EpisodeRecord]:
        """The open ones, in the order in which they began."""
        return self._list("SELECT * FROM episodes WHERE state = 'open' ORDER BY seq")

    def waiting(self) -> list[EpisodeRecord]:
        """Completed, to be trained, in no batch yet; in the order in which they began."""
        unbatched = "id NOT IN (SELECT episode_id FROM batch_episodes)"
        return self._list(f"SELECT * FROM episodes WHERE {WAITING} AND {unbatched} ORDER BY seq")

    def accounting(self) -> Accounting:
        """Begun episodes by state and fate; balances by construction, because each episode counts
        once.
        """
        return _accounting(
            self._database.rows("SELECT state, fate, reason, n FROM episode_counts WHERE n > 0")
        )

    def refused_keep(self, episode_id: str, refused: RefusedCalls) -> None:
        """What was refused of an episode's calls: one row, whatever an agent sends."""
        with self._database.transaction() as sql:
            sql.execute(
                "INSERT OR REPLACE INTO refused_calls VALUES (?, ?)",
                (episode_id, refused.model_dump_json()),
            )

    def refused_of(self, episode_ids: Iterable[str]) -> dict[str, RefusedCalls]:
        """By id, of those of these episodes that had some refused."""
        names = list(episode_ids)
        places = ", ".join("?" * len(names))
        rows = self._database.rows(
            f"SELECT * FROM refused_calls WHERE episode_id IN ({places})", *names
        )
        return {row["episode_id"]: RefusedCalls.model_validate_json(row["refused"]) for row in rows}

    def require_open(self, episode_id: str) -> None:
        """Raises EpisodeNotOpen. Call it inside the transaction that writes."""
        record = self.get(episode_id)
        if record is None or record.state is not EpisodeState.OPEN:
            raise EpisodeNotOpen(
                f"episode {episode_id} is {record.state.value if record else 'unknown'}"
            )

    def _drop(self, episode_id: str, state: str, reason: str) -> EpisodeRecord:
        with self._database.transaction() as sql:
            self.require_open(episode_id)
            sql.execute(
                "UPDATE episodes SET state = ?, reason = ?, ended_at = ? WHERE id = ?",
                (state, reason, self._now(), episode_id),
            )
            return self._known(episode_id)

    def _known(self, episode_id: str) -> EpisodeRecord:
        record = self.get(episode_id)
        assert record is not None, "just written in this transaction"
        return record

    def _one(self, query: str, *values: Any) -> EpisodeRecord | None:
        return next(iter(self._list(query, *values)), None)

    def _list(self, query: str, *values: Any) -> list[EpisodeRecord]:
        return [_read(row) for row in self._database.rows(query, *values)]


def _read(row: sqlite3.Row) -> EpisodeRecord:
    """One row of the episode table."""
    return EpisodeRecord(
        seq=row["seq"],
        id=row["id"],
        task=row["task"],
        group_key=row["group_key"],
        eval=bool(row["eval"]),
        state=EpisodeState(row["state"]),
        fate=SampleFate(row["fate"]) if row["fate"] else None,
        reason=row["reason"],
        output=WorkflowOutput.model_validate_json(row["output"]) if row["output"] else None,
        calls=row["calls"],
        sampled_tokens=row["sampled_tokens"],
        version_first=row["version_first"],
        version_last=row["version_last"],
        report=json.loads(row["report"]) if row["report"] else None,
        trained_step=row["trained_step"],
        begun_at=row["begun_at"],
        deadline_at=row["deadline_at"],
        ended_at=row["ended_at"],
        end_seq=row["end_seq"],
    )


def _accounting(rows: Iterable[sqlite3.Row]) -> Accounting:
    """Counts of episodes by state, fate and (for abandoned ones) reason, as the wire shows them."""
    counts: dict[str, int] = {}
    reasons: dict[str, int] = {}
    for row in rows:
        state = (row["fate"] or "waiting") if row["state"] == "completed" else row["state"]
        counts[state] = counts.get(state, 0) + row["n"]
        if state == "abandoned":
            reasons[row["reason"]] = row["n"]
    return Accounting(begun=sum(counts.values()), abandoned_by_reason=reasons, **counts)
