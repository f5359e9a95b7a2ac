"""One listing for many looks: a tick inspects every session, and an engine is asked once for all of them."""

import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

MAX_AGE_S = 1.0
SeenT = TypeVar("SeenT")


class Snapshot(Generic[SeenT]):
    """What ``take`` listed, by the name of the launch, for at most a second. Errors of ``take`` pass through."""

    def __init__(self, take: Callable[[], Mapping[str, SeenT]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._take = take
        self._clock = clock
        self._seen: Mapping[str, SeenT] = {}
        self._taken_at = float("-inf")

    def find(self, launch: str) -> SeenT | None:
        """The launch as last listed, None when it was not there."""
        if self._clock() - self._taken_at > MAX_AGE_S:
            self._seen = self._take()
            self._taken_at = self._clock()
        return self._seen.get(launch)

    def forget(self) -> None:
        """What was listed has changed by our doing."""
        self._taken_at = float("-inf")
