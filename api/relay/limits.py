"""How many calls the relay carries at once and how many bytes of their bodies it keeps: per API
key, and in all.

A body is kept until its call ends, because it may have to be sent again. One key may use half of
what there is, so that no one client keeps the others out.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from api.relay.errors import RelayError
from console.server.tally import Tally

MAX_CALLS, MAX_CALLS_PER_KEY = 8_192, 4_096
MAX_BYTES, MAX_BYTES_PER_KEY = 512 << 20, 256 << 20
RETRY_AFTER_S = 1


class Holding:
    """What one call holds of the limits."""

    def __init__(self, limits: "RelayLimits", key: str) -> None:
        self._limits, self._key = limits, key
        self.size_bytes = 0

    def add(self, size_bytes: int) -> None:
        """Count further bytes of the call's body, until it ends. Raises RelayError when these are
        too many.
        """
        self.size_bytes += size_bytes
        of_key, of_all = self._limits.bytes.count(self._key, size_bytes)
        if of_key > MAX_BYTES_PER_KEY:
            raise _too_much(
                f"the calls under way of this API key have more than {MAX_BYTES_PER_KEY} bytes of "
                "bodies"
            )
        if of_all > MAX_BYTES:
            raise _overloaded()


class RelayLimits:
    """The counts of this web process.

    All of it runs on the event loop, in memory: no lock is needed, and nothing waits.
    """

    def __init__(self) -> None:
        self.calls, self.bytes = Tally(), Tally()

    @contextmanager
    def hold(self, key: str) -> Iterator[Holding]:
        """One call made with ``key``, from its beginning to its end. Raises RelayError when there
        are too many.
        """
        of_key, of_all = self.calls.count(key, 1)
        holding = Holding(self, key)
        try:
            if of_key > MAX_CALLS_PER_KEY:
                raise _too_much(f"{MAX_CALLS_PER_KEY} calls of this API key are under way")
            if of_all > MAX_CALLS:
                raise _overloaded()
            yield holding
        finally:
            self.calls.count(key, -1)
            if holding.size_bytes:
                self.bytes.count(key, -holding.size_bytes)


def _too_much(what: str) -> RelayError:
    return RelayError(
        429,
        "rate_limited",
        f"Too much at once: {what}. Wait for some.",
        retry_after_s=RETRY_AFTER_S,
    )


def _overloaded() -> RelayError:
    message = "The server carries as many calls as its memory allows. Try again in a moment."
    return RelayError(503, "overloaded", message, retry_after_s=RETRY_AFTER_S)


limits = RelayLimits()
