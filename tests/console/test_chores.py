"""The reconciler's chores go on in their own thread, whatever happens to one of them."""

import threading

from console.scheduling import chores
from console.scheduling.chores import Chores
from console.webhooks.sending import deliveries_send

WAIT_S = 10


class Rounds:
    """A chore that counts its rounds; ``third`` is set by the third."""

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
    monkeypatch.setattr(chores, "PAUSE_S", 0.01)
    monkeypatch.setattr(chores, "CHORES", (failing, rounds))
    running = Chores()
    running.start()
    try:
        assert rounds.third.wait(WAIT_S)
    finally:
        running.close()
    assert not running._thread.is_alive()
    assert {record.getMessage() for record in caplog.records if record.exc_info} == {
        "failing failed; its next round looks at everything anew"
    }


def test_webhooks_are_among_them() -> None:
    assert deliveries_send in chores.CHORES
