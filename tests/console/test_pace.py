"""How often a process asks its runtimes for a heartbeat: each second while they are few, less often
with more.
"""

import pytest

from console.sessions.runtime import pace
from console.sessions.runtime.leases import lease_check, runtime_heartbeat
from console.sessions.runtime.pace import BEATS_A_SECOND, LEAST_S, MOST_S, SPREAD, WINDOW_S, Pace
from support import factories
from tinkerscript.wire.runtime import RuntimeStage, RuntimeState


class Heard:
    """A process that so many runtimes send heartbeats, each as it was told; the time is its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pace = Pace(clock=lambda: self.now, spread=lambda low, high: high)

    def live(self, runtimes: int, seconds: float) -> tuple[float, list[float]]:
        """Heartbeats a second and what was told, in the last half of the time."""
        due = {f"ses_{number}": self.now + number / runtimes for number in range(runtimes)}
        end, told, began = self.now + seconds, [], self.now
        while (at := min(due.values())) < end:
            session = min(due, key=lambda name: due[name])
            self.now = at
            due[session] = at + (next_s := self.pace.next_s(session))
            if at - began > seconds / 2:
                told.append(next_s)
        self.now = end
        return len(told) / (seconds / 2), told


@pytest.mark.parametrize("runtimes", [1, 30, BEATS_A_SECOND])
def test_few_runtimes_are_heard_each_second(runtimes):
    _, told = Heard().live(runtimes, 30.0)
    assert set(told) == {LEAST_S}


def test_more_runtimes_are_as_many_heartbeats_a_second(monkeypatch):
    monkeypatch.setattr(pace, "BEATS_A_SECOND", 10)
    a_second, told = Heard().live(25, 60.0)
    assert max(told) == min(told) == pytest.approx(2.5 * (1 + SPREAD))
    assert a_second == pytest.approx(10 / (1 + SPREAD), rel=0.1)


def test_the_pace_has_a_bound_well_within_a_lease(settings, monkeypatch):
    monkeypatch.setattr(pace, "BEATS_A_SECOND", 10)
    _, told = Heard().live(200, 20.0)
    longest_s = max(told)
    assert longest_s == min(told) == pytest.approx(MOST_S * (1 + SPREAD))
    assert longest_s <= settings.LEASE_S / 3, "two of them may be lost before the lease is over"
    assert longest_s < WINDOW_S, "who lives is heard in each stretch in which runtimes are counted"


def test_runtimes_that_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(pace, "BEATS_A_SECOND", 10)
    heard = Heard()
    heard.live(40, 20.0)
    assert set(heard.live(5, 30.0)[1]) == {LEAST_S}
    heard.live(40, 20.0)
    heard.now += 3600.0
    assert heard.pace.next_s("ses_0") == LEAST_S


def test_runtimes_that_began_together_are_told_unlike_times(monkeypatch):
    monkeypatch.setattr(pace, "BEATS_A_SECOND", 1)
    of_many = Pace()
    told = [of_many.next_s(f"ses_{number}") for number in range(50)]
    assert len(set(told[10:])) == 40
    assert all(MOST_S * (1 - SPREAD) <= each <= MOST_S * (1 + SPREAD) for each in told[10:])


@pytest.mark.django_db
def test_the_orders_of_a_heartbeat_say_when_the_next_is_due_and_ask_no_database(
    project, monkeypatch, django_assert_num_queries
):
    _, lease = factories.runtime_make(project)
    session, beat = lease_check(token=lease), RuntimeState(state=RuntimeStage.READY, progress=1)
    runtime_heartbeat(session=session, body=beat)
    many = Pace(spread=lambda low, high: 1.0)
    with django_assert_num_queries(0):
        for number in range(3 * BEATS_A_SECOND - 1):
            many.next_s(f"ses_{number}")
    assert runtime_heartbeat(session=session, body=beat).heartbeat_s == LEAST_S
    monkeypatch.setattr("console.sessions.runtime.leases.PACE", many)
    assert runtime_heartbeat(session=session, body=beat).heartbeat_s == pytest.approx(3.0)
