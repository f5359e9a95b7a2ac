"""Typed events of a runtime on one bus.

An event is a frozen dataclass, defined beside the part that publishes it. Followers subscribe while
the runtime is built, so that the publisher has no reference to them.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

EventT = TypeVar("EventT")


class Events:
    """The bus of one runtime."""

    def __init__(self) -> None:
        self._followers: defaultdict[type, list[Callable[[Any], None]]] = defaultdict(list)

    def subscribe(self, kind: type[EventT], follower: Callable[[EventT], None]) -> None:
        """Call ``follower`` with every event of this class that is published from now on."""
        self._followers[kind].append(follower)

    def publish(self, event: object) -> None:
        """Call the followers of its class in the order of their subscription, in this thread. What
        one raises, this raises.
        """
        for follower in self._followers[type(event)]:
            follower(event)
