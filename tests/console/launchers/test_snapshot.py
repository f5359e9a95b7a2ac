"""One listing answers many looks, for a second, and never instead of an error."""

import pytest

from console.scheduling.launchers.protocol import LauncherUnavailable
from console.scheduling.launchers.snapshot import MAX_AGE_S, Snapshot


class Listing:
    """An engine that counts how often it is asked."""

    def __init__(self) -> None:
        self.now, self.asked, self.away = 100.0, 0, False
        self.seen = Snapshot(self.take, clock=lambda: self.now)

    def take(self) -> dict[str, int]:
        self.asked += 1
        if self.away:
            raise LauncherUnavailable("nothing listens there")
        return {"a": self.asked}


def test_many_looks_within_a_second_cost_one_question() -> None:
    listing = Listing()
    assert [listing.seen.find(name) for name in ("a", "b", "a")] == [1, None, 1]
    listing.now += MAX_AGE_S + 0.01
    assert listing.seen.find("a") == 2


def test_what_was_changed_by_us_is_asked_anew() -> None:
    listing = Listing()
    listing.seen.find("a")
    listing.seen.forget()
    assert listing.seen.find("a") == 2


def test_an_engine_that_went_away_is_not_served_from_memory() -> None:
    listing = Listing()
    listing.seen.find("a")
    listing.away = True
    listing.now += MAX_AGE_S + 0.01
    for _ in range(2):
        with pytest.raises(LauncherUnavailable):
            listing.seen.find("a")
