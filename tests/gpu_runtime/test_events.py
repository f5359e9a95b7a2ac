"""The bus of a runtime: an event reaches those that follow its class, and no one needs to
follow.
"""

from dataclasses import dataclass

from gpu_runtime.events import Events


@dataclass(frozen=True)
class Trained:
    step: int


@dataclass(frozen=True)
class Dropped:
    why: str


def test_an_event_reaches_each_follower_of_its_class_in_the_order_of_their_subscription() -> None:
    events, seen = Events(), list[object]()
    events.subscribe(Trained, lambda event: seen.append(("first", event.step)))
    events.subscribe(Dropped, lambda event: seen.append(event.why))
    events.subscribe(Trained, lambda event: seen.append(("second", event.step)))
    events.publish(Trained(3))
    assert seen == [("first", 3), ("second", 3)]
    events.publish(Dropped("stale"))
    assert seen[2:] == ["stale"]


def test_an_event_that_no_one_follows_is_published_all_the_same() -> None:
    Events().publish(Trained(1))
