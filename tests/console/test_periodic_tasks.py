"""The reconciler's periodic tasks go on in their own thread, whatever happens to one of them."""

import threading

from console.scheduling import periodic_tasks
from console.scheduling.periodic_tasks import PeriodicTasks
from console.scheduling.retention import expired_remove
from console.sessions.budgets import sessions_over_budget_stop

WAIT_S = 10


class Rounds:
    """A task that counts its rounds; ``third`` is set by the third."""

    __name__ = "rounds"

    def __init__(self) -> None:
        self.count, self.third = 0, threading.Event()

    def __call__(self) -> None:
        self.count += 1
        if self.count == 3:
            self.third.set()


def failing() -> None:
    raise RuntimeError("the store is away")


def test_one_that_fails_is_recorded_and_keeps_no_other_from_its_turn(monkeypatch, caplog) -> None:
    rounds = Rounds()
    monkeypatch.setattr(periodic_tasks, "PAUSE_S", 0.01)
    monkeypatch.setattr(periodic_tasks, "PERIODIC_TASKS", (failing, rounds))
    monkeypatch.setattr(periodic_tasks, "HASHING_TASKS", ())
    monkeypatch.setattr(periodic_tasks, "RETENTION_TASKS", ())
    monkeypatch.setattr(periodic_tasks, "MAIL_TASKS", ())
    monkeypatch.setattr(periodic_tasks, "BUDGET_TASKS", ())
    monkeypatch.setattr(periodic_tasks, "deliveries_send", lambda stopped: 0)
    running = PeriodicTasks()
    running.start()
    try:
        assert rounds.third.wait(WAIT_S)
    finally:
        running.close()
    assert not running.is_running
    assert {record.getMessage() for record in caplog.records if record.exc_info} == {
        "failing failed; its next round looks at everything anew"
    }


def test_neither_budgets_nor_webhooks_wait_for_a_store_that_hangs(monkeypatch) -> None:
    budgets, webhooks, end = Rounds(), Rounds(), threading.Event()
    monkeypatch.setattr(periodic_tasks, "PAUSE_S", 0.01)
    monkeypatch.setattr(periodic_tasks, "PERIODIC_TASKS", (lambda: end.wait(WAIT_S),))
    monkeypatch.setattr(periodic_tasks, "HASHING_TASKS", ())
    monkeypatch.setattr(periodic_tasks, "RETENTION_TASKS", ())
    monkeypatch.setattr(periodic_tasks, "MAIL_TASKS", ())
    monkeypatch.setattr(periodic_tasks, "BUDGET_TASKS", (budgets,))
    monkeypatch.setattr(periodic_tasks, "deliveries_send", lambda stopped: webhooks())
    running = PeriodicTasks()
    running.start()
    try:
        assert budgets.third.wait(WAIT_S) and webhooks.third.wait(WAIT_S)
    finally:
        end.set()
        running.close()


def test_all_but_webhooks_pause_longer_while_the_reconciler_is_idle(monkeypatch) -> None:
    rounds, webhooks = Rounds(), Rounds()
    monkeypatch.setattr(periodic_tasks, "PAUSE_S", 0.01)
    monkeypatch.setattr(periodic_tasks, "IDLE_PAUSE_S", 60.0)
    for name in (
        "PERIODIC_TASKS",
        "HASHING_TASKS",
        "RETENTION_TASKS",
        "MAIL_TASKS",
        "BUDGET_TASKS",
    ):
        monkeypatch.setattr(periodic_tasks, name, ())
    monkeypatch.setattr(periodic_tasks, "BUDGET_TASKS", (rounds,))
    monkeypatch.setattr(periodic_tasks, "deliveries_send", lambda stopped: webhooks())
    running = PeriodicTasks(is_idle=lambda: True)
    running.start()
    try:
        assert webhooks.third.wait(WAIT_S) and rounds.count == 1
    finally:
        running.close()


def test_budgets_are_watched_and_what_expired_goes() -> None:
    assert sessions_over_budget_stop in periodic_tasks.BUDGET_TASKS
    assert expired_remove in periodic_tasks.RETENTION_TASKS
