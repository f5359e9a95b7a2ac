"""Each target of ``report_to`` has a thread of its own: a tracker that fails or hangs holds nothing
up.
"""

import logging
import queue
import threading
import time

from .targets import Measures, Target

log = logging.getLogger("tinkerscript")


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
