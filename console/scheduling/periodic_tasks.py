"""What is done beside the reconciler's ticks, in threads of their own because it waits for other
servers.

Budgets and webhooks have a thread each: a store that hangs must not let a session run on past its
budget, and receivers of webhooks must delay nothing at all.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from django.db import close_old_connections, connections

from console.scheduling.audit_heads import audit_heads_keep
from console.scheduling.logs import runtime_logs_bound, store_log_bound
from console.scheduling.retention import expired_remove
from console.sessions.alerts.mail import alerts_mail
from console.sessions.budgets import sessions_over_budget_stop
from console.sessions.checkpoints.leftovers import (
    checkpoints_expire,
    ended_states_trim,
    local_states_remove,
    uploads_sweep,
)
from console.sessions.checkpoints.removal import removals_finish
from console.sessions.checkpoints.verification import checkpoints_verify
from console.sessions.limits.usage import usage_sum
from console.sessions.runtime.episode_expiry import episodes_expire
from console.tinker.checkpoints import checkpoints_replaced_remove
from console.tinker.external_uploads import external_uploads_bound, external_uploads_expire
from console.tinker.services import tinker_sessions_vanished_finish
from console.webhooks.sending import deliveries_send

log = logging.getLogger(__name__)

PERIODIC_TASKS = (
    audit_heads_keep,
    tinker_sessions_vanished_finish,
    external_uploads_bound,
    local_states_remove,
    uploads_sweep,
    removals_finish,
    runtime_logs_bound,
    store_log_bound,
)
HASHING_TASKS = (checkpoints_verify,)  # one may take minutes
# They read every checkpoint there is, for what is days old.
RETENTION_TASKS = (
    expired_remove,
    usage_sum,
    checkpoints_expire,
    checkpoints_replaced_remove,
    ended_states_trim,
    episodes_expire,
    external_uploads_expire,
)
MAIL_TASKS = (alerts_mail,)
BUDGET_TASKS = (sessions_over_budget_stop,)
PAUSE_S = 1.0
IDLE_PAUSE_S = 5.0  # while no session runs or waits
RETENTION_PAUSE_S = 60.0
END_S = 15.0  # longer than one delivery may take


class PeriodicTasks:
    """Deliver webhooks, stop what is over its budget, remove deleted bytes, keep logs small.

    Several processes may do it at once. ``is_idle`` returns whether no session runs or waits.
    """

    def __init__(self, *, is_idle: Callable[[], bool] = lambda: False) -> None:
        self._is_idle = is_idle
        self._stop = threading.Event()
        webhooks = partial(deliveries_send, stopped=self._stop.is_set)
        kinds: dict[str, tuple[Sequence[Callable[[], object]], float, float]] = {
            "periodic-tasks": (PERIODIC_TASKS, PAUSE_S, IDLE_PAUSE_S),
            "hashing": (HASHING_TASKS, PAUSE_S, IDLE_PAUSE_S),
            "retention": (RETENTION_TASKS, RETENTION_PAUSE_S, RETENTION_PAUSE_S),
            "budgets": (BUDGET_TASKS, PAUSE_S, IDLE_PAUSE_S),
            "mails": (MAIL_TASKS, PAUSE_S, IDLE_PAUSE_S),
            # a person may wait for the one that tests a receiver
            "webhooks": ((webhooks,), PAUSE_S, PAUSE_S),
        }
        self._threads = [
            threading.Thread(target=self._run, args=work, name=name, daemon=True)
            for name, work in kinds.items()
        ]

    @property
    def is_running(self) -> bool:
        """Whether any of the threads is alive."""
        return any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Start the threads that run them."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop each after the task that it runs now, for at most END_S in all."""
        self._stop.set()
        deadline = time.monotonic() + END_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, tasks: Sequence[Callable[[], object]], pause_s: float, idle_s: float) -> None:
        while not self._stop.is_set():
            for task in tasks:
                try:
                    close_old_connections()
                    task()
                except Exception:  # a store that is away must not keep the others from their turn
                    log.exception("%s failed; its next round looks at everything anew", _name(task))
            self._stop.wait(idle_s if self._is_idle() else pause_s)
        connections.close_all()


def _name(task: Callable[[], object]) -> str:
    return getattr(task.func if isinstance(task, partial) else task, "__name__", repr(task))
