"""Says in the log that a server is away while requests to it are tried again, and that it is
back.
"""

import logging
import time

from tinkerscript.errors import TinkerScriptError

NOTICE_AFTER_S = 5.0
log = logging.getLogger("tinkerscript")


class Outages:
    """Of one connection. One line for each outage, however many threads meet it."""

    def __init__(self) -> None:
        self._since: float | None = None  # time.monotonic(), of an outage that was told

    def failed(self, error: TinkerScriptError, *, since: float, deadline: float) -> None:
        """A try failed and another follows: tries since ``since``, until ``deadline`` (both of
        time.monotonic()).
        """
        now = time.monotonic()
        if self._since is not None or now - since < NOTICE_AFTER_S:
            return
        self._since = since
        log.warning("%s Trying again for another %.0f s.", error, max(0.0, deadline - now))

    def passed(self) -> None:
        """A request got through."""
        if self._since is not None:
            log.warning("The server responds again, after %.0f s.", time.monotonic() - self._since)
            self._since = None
