"""Options that were changed between two steps: which step each change holds for first.

A step that is done again after a kill has the options that it had before: they are a function of
the journal and of the number of the step.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from gpu_runtime.journal.database import Database
from gpu_runtime.journal.records import dump
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.changes import ConfigChange


class ChangeTable:
    """``now`` is Unix time."""

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
                    _read(last)
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
            return _read(
                sql.execute("SELECT * FROM config_changes ORDER BY seq DESC LIMIT 1").fetchone()
            )


def _options(row: sqlite3.Row) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(row["options"])
    return found


def _read(row: sqlite3.Row) -> ConfigChange:
    return ConfigChange(
        seq=row["seq"],
        first_step=row["first_step"],
        options=_options(row),
        was=json.loads(row["was"]),
        at=row["at"],
    )
