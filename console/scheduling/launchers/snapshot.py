"""One listing for many looks: a tick inspects every session, and an engine is asked once for all of
them.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from console.scheduling.launchers.protocol import LauncherUnavailable

MAX_AGE_S = 1.0
# of the first look, for an engine that hangs; those after it are told at once that it still does
PATIENCE_S = 5.0
SeenT = TypeVar("SeenT")


class Snapshot(Generic[SeenT]):
    """What ``take`` listed, by the name of the launch, for at most a second. Errors of ``take``
    pass through.

    A ``take`` that hangs goes on in a thread: the sessions of one engine must not hold up those of
    another.
    """

    def __init__(
        self,
        take: Callable[[], Mapping[str, SeenT]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._take = take
        self._clock = clock
        self._seen: Mapping[str, SeenT] = {}
        self._taken_at = float("-inf")
        self._asking: _Listing[SeenT] | None = None
        self._is_slow = self._is_stale = False

    def find(self, launch: str) -> SeenT | None:
        """The launch as last listed, None when it was not there. Raises LauncherUnavailable while
        the engine hangs.
        """
        if self._clock() - self._taken_at > MAX_AGE_S:
            self._seen = self._list()
            self._taken_at = self._clock()
        return self._seen.get(launch)

    def forget(self) -> None:
        """What was listed has changed by our doing; so has what is being listed."""
        self._taken_at = float("-inf")
        # it is waited for all the same: an engine that hangs is asked once
        self._is_stale = self._asking is not None

    def _list(self) -> Mapping[str, SeenT]:
        while (found := self._listed()) is None:
            pass  # the next one is asked after the change
        return found

    def _listed(self) -> Mapping[str, SeenT] | None:
        """What is there; None for a listing that began before something was changed."""
        asking = self._asking = self._asking or _Listing(self._take)
        asking.thread.join(0.0 if self._is_slow else PATIENCE_S)
        if asking.thread.is_alive():
            self._is_slow = True
            # The same words each time: other ones would be another line of the log and of the
            # session's record.
            raise LauncherUnavailable(
                f"it gives no response within {PATIENCE_S:g} s to what runs there"
            )
        is_stale, self._asking, self._is_stale = self._is_stale, None, False
        if asking.error is not None:  # an engine that hung stays slow until it has listed something
            raise asking.error
        self._is_slow = False
        return None if is_stale else asking.found


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
