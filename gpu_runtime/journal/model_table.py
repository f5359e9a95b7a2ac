"""The ledger of models that a Tinker client trains: every operation under its number, and what came
of it.

The file is the promise: an operation that was taken is in here before its client hears of it, and
what was done of a model since its last saved state is done again after a kill.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any

from gpu_runtime.journal.database import Database

RESULTS_KEPT, RESULT_BYTES_KEPT = 20_000, 256 << 20
CREATE = 0  # the number of a model's first operation, which makes it


@dataclass(frozen=True)
class Operation:
    """One operation of a model. ``result`` is None while it waits, and again once it was dropped
    for its age; ``kind`` and ``body`` are as they were sent.
    """

    model_id: str
    seq_id: int
    request_id: str
    kind: str
    body: bytes
    sha256: str
    # json, proto or error; "dropped" when it was given up for its age
    result_kind: str | None = None
    result: bytes | None = None

    @property
    def is_done(self) -> bool:
        """Whether its result is known."""
        return self.result_kind is not None


@dataclass(frozen=True)
class ModelRow:
    """A model and the last operation that its saved state holds; -1 where there is none."""

    id: str
    state_seq: int


class ModelTable:
    """Models, operations and samplers of a Tinker session. ``now`` is Unix time."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self._database, self._now = database, now
        kept = database.row(
            "SELECT count(result), ifnull(sum(length(result)), 0) FROM model_operations"
        )
        assert kept is not None, "an aggregate always has a row"
        self._kept, self._kept_bytes = kept

    def take(self, operation: Operation) -> Operation:
        """Write it down, or return the one that has its number. Raises DiskFull."""
        return self.take_all([operation])[0]

    def take_all(self, operations: list[Operation]) -> list[Operation]:
        """As ``take`` does with each, all or none."""
        self._database.check_room()
        with self._database.transaction() as sql:
            return [self._taken(sql, operation) for operation in operations]

    def _taken(self, sql: Connection, operation: Operation) -> Operation:
        known = sql.execute(
            "SELECT * FROM model_operations WHERE model_id = ? AND seq_id = ?",
            (operation.model_id, operation.seq_id),
        ).fetchone()
        if known is not None:
            return _operation(known)
        if operation.seq_id == CREATE:
            sql.execute("INSERT OR IGNORE INTO models (id) VALUES (?)", (operation.model_id,))
        sql.execute(
            "INSERT INTO model_operations (model_id, seq_id, request_id, kind, body, sha256, "
            "taken_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (operation.model_id, operation.seq_id, operation.request_id, operation.kind, operation.body,
             operation.sha256, self._now()),
        )  # fmt: skip
        return operation

    def finish(self, operation: Operation, result_kind: str, result: bytes) -> None:
        """Its result, the first time alone; the oldest results beyond what is kept are dropped."""
        with self._database.transaction() as sql:
            done = sql.execute(
                "UPDATE model_operations SET result_kind = ?, result = ?, done_at = ?"
                " WHERE model_id = ? AND seq_id = ? AND result_kind IS NULL",
                (result_kind, result, self._now(), operation.model_id, operation.seq_id),
            )
            if done.rowcount:
                self._kept, self._kept_bytes = self._kept + 1, self._kept_bytes + len(result)
            while self._kept > RESULTS_KEPT or self._kept_bytes > RESULT_BYTES_KEPT:
                oldest = sql.execute(
                    "SELECT rowid, length(result) FROM model_operations WHERE result IS NOT NULL"
                    " ORDER BY done_at LIMIT 1"
                ).fetchone()
                sql.execute(
                    "UPDATE model_operations SET result = NULL,"
                    " result_kind = CASE result_kind WHEN 'error' THEN 'error' ELSE 'dropped' END"
                    " WHERE rowid = ?",
                    (oldest[0],),
                )
                self._kept, self._kept_bytes = self._kept - 1, self._kept_bytes - oldest[1]

    def find(self, request_id: str) -> Operation | None:
        """An operation by the name of its promise."""
        row = self._database.row("SELECT * FROM model_operations WHERE request_id = ?", request_id)
        return _operation(row) if row else None

    def after(self, model_id: str, seq_id: int) -> list[Operation]:
        """The model's operations with higher numbers, in order: what a new runtime does, or does
        again. Bodies and results, which may be larger than memory, are left out.
        """
        rows = self._database.rows(
            "SELECT model_id, seq_id, request_id, kind, x'' AS body, sha256, result_kind, NULL AS "
            "result"
            " FROM model_operations WHERE model_id = ? AND seq_id > ? ORDER BY seq_id",
            model_id, seq_id,
        )  # fmt: skip
        return [_operation(row) for row in rows]

    def steps_done(self) -> int:
        """How many optimizer steps were made, of all models."""
        row = self._database.row(
            "SELECT count(*) + ifnull((SELECT value FROM meta WHERE name = 'steps_forgotten'), 0)"
            " FROM model_operations WHERE kind = 'optim_step' AND result_kind IN "
            "('json', 'dropped')"
        )
        assert row is not None, "an aggregate always has a row"
        return int(row[0])

    def creation(self, model_id: str) -> Operation | None:
        """The operation that made a model."""
        row = self._database.row(
            "SELECT * FROM model_operations WHERE model_id = ? AND seq_id = ?", model_id, CREATE
        )
        return _operation(row) if row else None

    def models(self) -> list[ModelRow]:
        """Every model, in the order in which they were made."""
        rows = self._database.rows("SELECT id, state_seq FROM models ORDER BY rowid")
        return [ModelRow(row["id"], row["state_seq"]) for row in rows]

    def saved(self, model_id: str, seq_id: int) -> None:
        """A state on this volume holds all operations up to ``seq_id``: their bodies are needed no
        more.
        """
        with self._database.transaction() as sql:
            sql.execute("UPDATE models SET state_seq = ? WHERE id = ?", (seq_id, model_id))
            sql.execute(
                "UPDATE model_operations SET body = x'' WHERE model_id = ? AND seq_id <= ? AND "
                "seq_id > ?",
                (model_id, seq_id, CREATE),
            )

    def client_forget(self, client: str) -> None:
        """Remove the models, operations and samplers of a client that is finished."""
        own = (f"{client}:", f"{client};")  # ";" follows ":"
        with self._database.transaction() as sql:
            kept = sql.execute(
                "SELECT count(result), ifnull(sum(length(result)), 0) FROM model_operations"
                " WHERE model_id >= ? AND model_id < ?",
                own,
            ).fetchone()
            sql.execute(
                "INSERT INTO meta SELECT 'steps_forgotten', count(*) FROM model_operations"
                " WHERE model_id >= ? AND model_id < ? AND kind = 'optim_step'"
                " AND result_kind IN ('json', 'dropped')"
                " ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
                own,
            )
            sql.execute("DELETE FROM model_operations WHERE model_id >= ? AND model_id < ?", own)
            sql.execute("DELETE FROM models WHERE id >= ? AND id < ?", own)
            for first, last in (own, tuple(f"inflight:{end}" for end in own)):
                sql.execute("DELETE FROM samplers WHERE id >= ? AND id < ?", (first, last))
        self._kept, self._kept_bytes = self._kept - kept[0], self._kept_bytes - kept[1]

    def sampler_clients(self) -> set[str]:
        """The clients that have samplers."""
        rows = self._database.rows(
            "SELECT DISTINCT substr(id, 1, instr(id, ':') - 1) AS client FROM samplers"
            " WHERE id LIKE 'tnk%'"
        )
        return {row["client"] for row in rows}

    def sampler_put(self, sampler_id: str, described: dict[str, Any]) -> None:
        """What a sampler's id stands for; the first description stands."""
        with self._database.transaction() as sql:
            sql.execute(
                "INSERT OR IGNORE INTO samplers VALUES (?, ?)", (sampler_id, json.dumps(described))
            )

    def sampler_move(self, sampler_id: str, described: dict[str, Any]) -> None:
        """Let a sampler's id stand for other weights from now on: one that follows its model."""
        with self._database.transaction() as sql:
            sql.execute(
                "INSERT OR REPLACE INTO samplers VALUES (?, ?)", (sampler_id, json.dumps(described))
            )

    def sampler(self, sampler_id: str) -> dict[str, Any] | None:
        """What ``sampler_put`` said of it."""
        row = self._database.row("SELECT described FROM samplers WHERE id = ?", sampler_id)
        return json.loads(row["described"]) if row else None


def _operation(row: Any) -> Operation:
    names = ("model_id", "seq_id", "request_id", "kind", "body", "sha256", "result_kind", "result")
    return Operation(**{name: row[name] for name in names})
