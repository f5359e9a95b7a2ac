"""The durable memory of a session: every episode, call, batch and step, in one SQLite file.

A method that writes returns after its commit is on disk, or raises and has changed nothing. Safe to call from any
thread; from asyncio use a worker thread, because a commit waits for the disk.
"""

import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_runtime.errors import JournalFull
from gpu_runtime.journal_records import BatchRecord, CallRecord, EpisodeRecord, dump
from gpu_runtime.journal_rows import (
    fetch_batch,
    fetch_calls,
    insert_call,
    insert_refused,
    read_accounting,
    read_episode,
    read_refused,
)
from gpu_runtime.journal_schema import EpisodeNotOpen, connect, copy_file, full_disk_is_named
from tinkerscript.wire.episodes import EpisodeState, WorkflowOutput
from tinkerscript.wire.sessions import Accounting

MIN_FREE_BYTES = 64 * 2**20
WAITING = "state = 'completed' AND fate IS NULL AND NOT eval"


class Journal:
    """One session's journal. Example: ``journal = Journal(Path("journal.sqlite3"))``.

    New work (``begin``, ``record_call``) is refused with JournalFull while the volume has less than ``min_free_bytes``;
    what only finishes work already taken may use that reserve.
    """

    def __init__(
        self, path: Path, *, min_free_bytes: int = MIN_FREE_BYTES, now: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._min_free_bytes = min_free_bytes
        self._now = now
        self._lock = threading.RLock()
        with full_disk_is_named():
            self._connection = connect(path)

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        with self._lock:
            self._connection.close()

    def check_room(self) -> None:
        """Raises JournalFull when the volume is below its reserve."""
        free = shutil.disk_usage(self.path.parent).free
        if free < self._min_free_bytes:
            raise JournalFull(f"{free} bytes are free on the volume of the journal; {self._min_free_bytes} are needed")

    # Episodes

    def begin(
        self, episode_id: str, *, task: str | None, eval: bool, deadline_at: float, begin_key: str | None = None
    ) -> EpisodeRecord:
        """A new open episode. ``begin_key`` is the caller's idempotency key; see ``episode_of_begin``."""
        self.check_room()
        with self.transaction() as sql:
            sql.execute(
                "INSERT INTO episodes (id, begin_key, task, group_key, eval, begun_at, deadline_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (episode_id, begin_key, task, task, int(eval), self._now(), deadline_at),
            )
            return self._episode(episode_id)

    def record_call(self, call: CallRecord, *, group_key: str | None = None, parent_prefix_length: int = 0) -> None:
        """Keep a call of an open episode; the first one gives a group key to an episode that has none.

        ``parent_prefix_length`` counts the ids of the prompt that ``call.parent`` holds already.
        Raises EpisodeNotOpen, JournalFull.
        """
        self.check_room()
        with self.transaction() as sql:
            self._require_open(call.episode_id)
            insert_call(sql, call, parent_prefix_length)
            if call.status != "completed":
                return
            versions = [version for completion in call.completions for version in completion.versions_T]
            sql.execute(
                "UPDATE episodes SET calls = calls + 1, sampled_tokens = sampled_tokens + :tokens,"
                " version_first = min(ifnull(version_first, :first), :first),"
                " version_last = max(ifnull(version_last, :last), :last),"
                " group_key = ifnull(group_key, :group_key) WHERE id = :id",
                {
                    "tokens": len(versions),
                    "first": min(versions, default=0),
                    "last": max(versions, default=0),
                    "group_key": group_key,
                    "id": call.episode_id,
                },
            )

    def end(self, episode_id: str, output: WorkflowOutput, report: dict[str, Any]) -> EpisodeRecord:
        """Complete an open episode. ``report`` must hold ``timelines``. Raises EpisodeNotOpen."""
        with self.transaction() as sql:
            self._require_open(episode_id)
            sql.execute(
                "UPDATE episodes SET state = 'completed', fate = CASE WHEN eval THEN 'eval' END, output = ?,"
                " reward = ?, report = ?, ended_at = ?,"
                " end_seq = (SELECT 1 + ifnull(max(end_seq), 0) FROM episodes) WHERE id = ?",
                (output.model_dump_json(), output.reward, dump(report), self._now(), episode_id),
            )
            return self._episode(episode_id)

    def abandon(self, episode_id: str, reason: str) -> EpisodeRecord:
        """End an open episode without a sample. Raises EpisodeNotOpen."""
        return self._drop(episode_id, "abandoned", reason)

    def expire(self, episode_id: str, reason: str) -> EpisodeRecord:
        """End an open episode whose clock has run out. Raises EpisodeNotOpen."""
        return self._drop(episode_id, "expired", reason)

    def mark_stale(self, episode_ids: Sequence[str], reason: str) -> None:
        """Waiting episodes that will not be trained. Others of the list are left as they are."""
        with self.transaction() as sql:
            for episode_id in episode_ids:
                sql.execute(
                    f"UPDATE episodes SET fate = 'stale', reason = ? WHERE id = ? AND {WAITING}", (reason, episode_id)
                )

    def episode(self, episode_id: str) -> EpisodeRecord | None:
        """One episode, or none."""
        return self._one("SELECT * FROM episodes WHERE id = ?", episode_id)

    def episode_of_begin(self, begin_key: str) -> EpisodeRecord | None:
        """The episode that an earlier ``begin`` with this idempotency key made."""
        return self._one("SELECT * FROM episodes WHERE begin_key = ?", begin_key)

    def episodes(self, *, before: int | None = None, limit: int = 100) -> list[EpisodeRecord]:
        """Newest first, those with ``seq`` below ``before``."""
        return self._list(
            "SELECT * FROM episodes WHERE seq < ? ORDER BY seq DESC LIMIT ?", before or 2**62, max(1, limit)
        )

    def open_episodes(self) -> list[EpisodeRecord]:
        """In the order in which they began."""
        return self._list("SELECT * FROM episodes WHERE state = 'open' ORDER BY seq")

    def waiting_episodes(self) -> list[EpisodeRecord]:
        """Completed, to be trained, in no batch yet; in the order in which they began."""
        unbatched = "id NOT IN (SELECT episode_id FROM batch_episodes)"
        return self._list(f"SELECT * FROM episodes WHERE {WAITING} AND {unbatched} ORDER BY seq")

    def accounting(self) -> Accounting:
        """Where every begun episode is; balances by construction, because each row is in one place."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT state, fate, reason, count(*) AS n FROM episodes GROUP BY state, fate,"
                " CASE WHEN state = 'abandoned' THEN reason END"
            ).fetchall()
        return read_accounting(rows)

    # Calls

    def call_of_request(self, episode_id: str, request_id: str) -> CallRecord | None:
        """The completed call that answered this request id, if any."""
        with self._lock:
            row = self._connection.execute(
                "SELECT id FROM calls WHERE episode_id = ? AND request_id = ?", (episode_id, request_id)
            ).fetchone()
        return next(call for call in self.calls(episode_id) if call.id == row["id"]) if row else None

    def calls(self, episode_id: str) -> list[CallRecord]:
        """Every call of an episode in the order in which they were recorded, cancelled ones included."""
        with self._lock:
            return fetch_calls(self._connection, episode_id)

    # Batches and steps

    def batch_record(self, step: int, groups: Sequence[Sequence[str]], policy_version: int) -> None:
        """Fix what step ``step`` trains, before it is trained. A second batch for a step, or an episode that is already
        in one, raises sqlite3.IntegrityError and changes nothing."""
        with self.transaction() as sql:
            sql.execute("INSERT INTO batches VALUES (?, ?, ?)", (step, policy_version, self._now()))
            flat = [(group, episode_id) for group, members in enumerate(groups) for episode_id in members]
            sql.executemany(
                "INSERT INTO batch_episodes VALUES (?, ?, ?, ?)",
                [(step, position, group, episode_id) for position, (group, episode_id) in enumerate(flat)],
            )

    def batch_get(self, step: int) -> BatchRecord | None:
        """The batch of a step, or none."""
        with self._lock:
            return fetch_batch(self._connection, step)

    def batches_after(self, step: int) -> list[BatchRecord]:
        """The batches of all later steps, in order: what a runtime resumed from step ``step`` trains again."""
        with self._lock:
            rows = self._connection.execute("SELECT step FROM batches WHERE step > ? ORDER BY step", (step,)).fetchall()
        return [batch for row in rows if (batch := self.batch_get(row["step"]))]

    def batch_discard(self, step: int, reason: str) -> None:
        """Undo a batch whose step was refused: its episodes become stale and the step number is free again.

        What it was made of stays, for ``batch_refused``.
        """
        with self.transaction() as sql:
            batch = self.batch_get(step)
            if batch is None:
                return
            insert_refused(sql, batch, reason, self._now())
            sql.execute("DELETE FROM batch_episodes WHERE step = ?", (step,))
            sql.execute("DELETE FROM batches WHERE step = ?", (step,))
            self.mark_stale([episode_id for group in batch.groups for episode_id in group], reason)

    def batch_refused(self, name: str) -> tuple[BatchRecord, str] | None:
        """A refused batch by its ``refused_name``, and why it was refused; or none."""
        with self._lock:
            row = self._connection.execute("SELECT * FROM refused_batches WHERE name = ?", (name,)).fetchone()
        return read_refused(row) if row else None

    def step_metrics(self, step: int) -> dict[str, Any] | None:
        """What was recorded of a completed step, or none."""
        with self._lock:
            row = self._connection.execute("SELECT metrics FROM steps WHERE step = ?", (step,)).fetchone()
        return json.loads(row["metrics"]) if row else None

    def step_record(self, step: int, metrics: dict[str, Any]) -> bool:
        """The step is done: its episodes are trained. False (and no change) when it was recorded before."""
        with self.transaction() as sql:
            if sql.execute("SELECT 1 FROM steps WHERE step = ?", (step,)).fetchone():
                return False
            sql.execute("INSERT INTO steps VALUES (?, ?, ?)", (step, dump(metrics), self._now()))
            sql.execute(
                "UPDATE episodes SET fate = 'trained', trained_step = ? WHERE state = 'completed' AND fate IS NULL"
                " AND id IN (SELECT episode_id FROM batch_episodes WHERE step = ?)",
                (step, step),
            )
            return True

    def latest_step(self) -> int:
        """The number of the last completed step; 0 before the first."""
        with self._lock:
            return self._connection.execute("SELECT ifnull(max(step), 0) FROM steps").fetchone()[0]

    def backup(self, path: Path) -> None:
        """A consistent copy at ``path``, in place at once or not at all. Raises JournalFull."""
        with full_disk_is_named(), self._lock:
            copy_file(self._connection, path)

    # Inside

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Several reads and writes as one: on disk when the block ends well, undone when it does not."""
        with self._lock, full_disk_is_named():
            if self._connection.in_transaction:  # called by another method's transaction: part of it
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled back already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _require_open(self, episode_id: str) -> None:
        record = self.episode(episode_id)
        if record is None or record.state is not EpisodeState.OPEN:
            raise EpisodeNotOpen(f"episode {episode_id} is {record.state.value if record else 'unknown'}")

    def _drop(self, episode_id: str, state: str, reason: str) -> EpisodeRecord:
        with self.transaction() as sql:
            self._require_open(episode_id)
            sql.execute(
                "UPDATE episodes SET state = ?, reason = ?, ended_at = ? WHERE id = ?",
                (state, reason, self._now(), episode_id),
            )
            return self._episode(episode_id)

    def _episode(self, episode_id: str) -> EpisodeRecord:
        record = self.episode(episode_id)
        assert record is not None, "just written in this transaction"
        return record

    def _one(self, query: str, *values: Any) -> EpisodeRecord | None:
        found = self._list(query, *values)
        return found[0] if found else None

    def _list(self, query: str, *values: Any) -> list[EpisodeRecord]:
        with self._lock:
            return [read_episode(row) for row in self._connection.execute(query, values).fetchall()]
