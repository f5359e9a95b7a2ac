"""Sends the metrics of a session's steps to the targets of ``report_to`` while the attempts run.
Each target has a thread of its own: a tracker that fails or hangs holds nothing up.
"""

import logging
import math
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

from tinkerscript.errors import TinkerScriptError
from tinkerscript.reports import Report
from tinkerscript.sessions.session import Session
from tinkerscript.wire.events import EventKind

from .targets import Measures, ReportTo, Target, targets_open

POLL_INTERVAL_S = 2.0
END_WAIT_S = 30.0
log = logging.getLogger("tinkerscript")


class StepLog:
    """A ``with`` block: steps done since the one before are logged as ``train/...``, evaluations as
    ``eval/...``.

    A target that fails or hangs is named in the log and left out: training does not end for it.
    ``cursor`` is where in the session's record to begin; steps up to ``after_step`` are not logged.
    """

    def __init__(self, session: Session, report_to: ReportTo, *, cursor: int | None) -> None:
        """Raises InvalidRequest for an unknown target and for a package that is not installed."""
        view = session.status()
        self._targets = [TargetThread(target) for target in targets_open(report_to, view)]
        self._session, self.cursor = session, cursor or 0
        self._after_step = view.policy_version if cursor is None else 0
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(
            target=self._follow, name="tinkerscript-step-log", daemon=True
        )

    def __enter__(self) -> "StepLog":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(END_WAIT_S)
        self._steps_log()
        for target in self._targets:
            target.end()
        until = time.monotonic() + END_WAIT_S  # for all of them together
        for target in self._targets:
            target.wait(until)

    def evaluation(self, report: Report, step: int, name: str) -> None:
        """Log what came of an evaluation of the policy at ``step``."""
        prefix = "eval" if name == "eval" else f"eval/{name}"
        self._send({f"{prefix}/{key}": value for key, value in report.measures().items()}, step)

    def _follow(self) -> None:
        while not self._over.wait(POLL_INTERVAL_S):
            self._steps_log()

    def _steps_log(self) -> None:
        with self._writing:
            try:
                for event in self._session.events(self.cursor, [EventKind.METRIC]):
                    self.cursor = event.cursor
                    if event.data["step"] > self._after_step:
                        self._send(
                            {f"train/{name}": value for name, value in event.data.items()},
                            event.data["step"],
                        )
            except (
                TinkerScriptError
            ) as failure:  # the next round, or the end, reads what is missing
                log.warning(
                    "The steps of session %s could not be read for report_to: %s",
                    self._session.id,
                    failure,
                )

    def _send(self, values: Mapping[str, Any], step: int) -> None:
        measures = {
            name: float(value) for name, value in values.items() if _is_measure(name, value)
        }
        for target in self._targets:
            target.log(measures, step)


def _is_measure(name: str, value: Any) -> bool:
    if name == "train/step" or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


class TargetThread:
    """``log()`` returns at once. A target that raises is named in the log and gets nothing more."""

    def __init__(self, target: Target) -> None:
        self._target, self._todo = target, queue.SimpleQueue[tuple[Measures, int] | None]()
        self._step = 0  # the last one that was given
        self._thread = threading.Thread(target=self._write, name="tinkerscript-report", daemon=True)
        self._thread.start()

    def log(self, measures: Measures, step: int) -> None:
        self._todo.put((measures, step))

    def end(self) -> None:
        """Nothing more comes: what waits is written, then the target is closed."""
        self._todo.put(None)

    def wait(self, until: float) -> None:
        """``time.monotonic()`` until which it may take to be closed; of one that takes longer the
        log says so.
        """
        self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            log.warning(
                "report_to=%r hangs at step %d and is left out.", self._target.name, self._step
            )

    def _write(self) -> None:
        try:
            while (item := self._todo.get()) is not None:
                measures, self._step = item
                self._target.log(measures, self._step)
            self._target.close()
        except Exception as failure:  # noqa: BLE001 - of every kind, and none is worth the training
            log.warning(
                "report_to=%r failed at step %d and is left out: %r",
                self._target.name,
                self._step,
                failure,
            )
