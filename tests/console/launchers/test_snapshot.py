"""One listing answers many looks, for a second, and never instead of an error."""

import threading
import time

import pytest

from console.scheduling.launchers import snapshot
from console.scheduling.launchers.protocol import LauncherUnavailable
from console.scheduling.launchers.snapshot import MAX_AGE_S, Snapshot
from console.scheduling.processes import wait_until


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


def test_an_engine_that_hangs_holds_up_one_look_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot, "PATIENCE_S", 0.2)
    responds, asked = threading.Event(), []

    def take() -> dict[str, int]:
        asked.append(None)
        assert responds.wait(20)
        return {"a": 1}

    seen = Snapshot(take)
    said = set()
    for _ in range(5):
        with pytest.raises(LauncherUnavailable, match="no response within") as away:
            seen.find("a")
        said.add(str(away.value))
    assert len(said) == 1, "a session's record has one line for each reason"
    assert len(asked) == 1, "the others were told at once"
    responds.set()
    assert wait_until(
        lambda: not [it for it in threading.enumerate() if it.name == "launcher-listing"],
        timeout_s=20,
    )
    assert seen.find("a") == 1


def test_an_engine_that_goes_on_hanging_is_not_waited_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its commands end by their own deadlines, and what is tried there meanwhile asks for what has
    changed.
    """
    monkeypatch.setattr(snapshot, "PATIENCE_S", 0.2)
    asked: list[threading.Event] = []

    def take() -> dict[str, int]:
        asked.append(gives_up := threading.Event())
        if len(asked) > 2:
            return {"a": len(asked)}
        assert gives_up.wait(20)
        raise LauncherUnavailable("squeue timed out")

    seen = Snapshot(take)
    with pytest.raises(LauncherUnavailable, match="no response"):
        seen.find("a")
    monkeypatch.setattr(snapshot, "PATIENCE_S", 20.0)
    for _ in range(5):
        seen.forget()
        with pytest.raises(LauncherUnavailable, match="no response"):
            seen.find("a")
    assert len(asked) == 1, "one question at a time"
    asked[0].set()
    listed = [it for it in threading.enumerate() if it.name == "launcher-listing"]
    assert wait_until(lambda: not any(it.is_alive() for it in listed), timeout_s=20)
    with pytest.raises(LauncherUnavailable, match="timed out"):
        seen.find("a")
    began = time.monotonic()
    with pytest.raises(LauncherUnavailable, match="no response"):
        seen.find("a")
    assert time.monotonic() - began < 10, "the second question was not waited for"
    asked[1].set()

    def is_back() -> bool:
        try:
            return bool(seen.find("a"))
        except LauncherUnavailable:
            return False

    assert wait_until(is_back, timeout_s=20)


def test_what_was_being_listed_when_we_changed_it_is_asked_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot, "PATIENCE_S", 0.2)
    responds, listings = threading.Event(), [{"a": 1}, {"a": 2}]

    def take() -> dict[str, int]:
        found = listings.pop(0)
        if found == {"a": 1}:
            assert responds.wait(20)
        return found

    seen = Snapshot(take)
    with pytest.raises(LauncherUnavailable):
        seen.find("a")
    seen.forget()
    responds.set()
    assert wait_until(
        lambda: not [it for it in threading.enumerate() if it.name == "launcher-listing"],
        timeout_s=20,
    )
    assert seen.find("a") == 2
