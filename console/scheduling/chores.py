"""What goes on beside the reconciler's ticks, in a thread of its own: it waits for other servers."""

import logging
import threading

from django.db import close_old_connections, connections

from console.scheduling.logs import runtime_logs_bound, store_log_bound
from console.sessions.budgets import sessions_over_budget_stop
from console.sessions.removal import removals_finish
from console.sessions.retention import checkpoints_expire
from console.webhooks.sending import deliveries_send

log = logging.getLogger(__name__)

CHORES = (
    sessions_over_budget_stop,
    checkpoints_expire,
    removals_finish,
    deliveries_send,
    runtime_logs_bound,
    store_log_bound,
)
PAUSE_S = 1.0
END_S = 15.0  # longer than one delivery may take


class Chores:
    """Deliver webhooks, stop what is over its budget, remove deleted bytes, keep logs small.

    Several processes may do it at once.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chores", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End, once what is being sent is sent."""
        self._stop.set()
        self._thread.join(END_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            for chore in CHORES:
                try:
                    close_old_connections()
                    chore()
                except Exception:  # a store that is away must not keep the webhooks from leaving
                    log.exception("%s failed; its next round looks at everything anew", chore.__name__)
            self._stop.wait(PAUSE_S)
        connections.close_all()
