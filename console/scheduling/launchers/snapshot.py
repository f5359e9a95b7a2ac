"""One listing for many looks: a tick inspects every session, and an engine is asked once for all of them."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from console.scheduling.launchers.protocol import LauncherUnavailable

MAX_AGE_S = 1.0
PATIENCE_S = 5.0  # of the first look, for an engine that hangs; those after it are told at once that it still does
SeenT = TypeVar("SeenT")


class Snapshot(Generic[SeenT]):
    """What ``take`` listed, by the name of the launch, for at most a second. Errors of ``take`` pass through.

    A ``take`` that hangs goes on in a thread: the sessions of one engine must not hold up those of another.
    """

    def __init__(self, take: Callable[[], Mapping[str, SeenT]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._take = take
        self._clock = clock
        self._seen: Mapping[str, SeenT] = {}
        self._taken_at = float("-inf")
        self._asking: _Listing[SeenT] | None = None
        self._is_slow = False

    def find(self, launch: str) -> SeenT | None:
        """The launch as last listed, None when it was not there. Raises LauncherUnavailable while the engine hangs."""
        if self._clock() - self._taken_at > MAX_AGE_S:
            self._seen = self._list()
            self._taken_at = self._clock()
        return self._seen.get(launch)

    def forget(self) -> None:
        """What was listed has changed by our doing; so has what is being listed."""
        self._taken_at = float("-inf")
        self._asking, self._is_slow = None, False

    def _list(self) -> Mapping[str, SeenT]:
        asking = self._asking = self._asking or _Listing(self._take)
        asking.thread.join(0.0 if self._is_slow else PATIENCE_S)
        self._is_slow = asking.thread.is_alive()
        if self._is_slow:
            # The same words each time: other ones would be another line of the log and of the session's record.
            raise LauncherUnavailable(f"it gives no response within {PATIENCE_S:g} s to what runs there")
        self._asking = None
        if asking.error is not None:
            raise asking.error
        return asking.found


class _Listing(Generic[SeenT]):
    """One call of ``take``."""

    def __init__(self, take: Callable[[], Mapping[str, SeenT]]) -> None:
        self._take = take
        self.found: Mapping[str, SeenT] = {}
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, name="launcher-listing", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.found = self._take()
        except Exception as error:  # noqa: BLE001 - the top of the thread: whoever looks is told
            self.error = error
