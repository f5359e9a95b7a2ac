"""Whether this machine has memory to spare for runtimes that wait without a base model."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import psutil

log = logging.getLogger(__name__)

GIB = 1 << 30
# One holds about 1 GiB with what it has imported. It is started where a session of a small model
# fits beside it, and ended where there is little left.
TO_START_BYTES, TO_KEEP_BYTES = 6 * GIB, 2 * GIB


def memory_available() -> int:
    """Bytes that can be had without swapping."""
    return int(psutil.virtual_memory().available)


@dataclass
class SpareMemory:
    """Looked at twice a second; the log says once when it is short, and once when it is not any
    more.
    """

    available: Callable[[], int] = memory_available
    _is_short: bool = False

    def allows(self, *, kept: int) -> bool:
        """Whether one more may be started beside the ``kept``, or, where one is kept, that it may
        stay.
        """
        found, needed = self.available(), TO_KEEP_BYTES if kept else TO_START_BYTES
        is_short = found < needed
        if is_short and not self._is_short:
            log.warning(
                "no runtime waits with its libraries loaded: %.1f GiB of memory are available, and "
                "%.0f are needed; "
                "sessions start slower", found / GIB, TO_START_BYTES / GIB
            )  # fmt: skip
        elif self._is_short and not is_short:
            log.info(
                "a runtime with its libraries loaded is kept again: %.1f GiB are available",
                found / GIB,
            )
        self._is_short = is_short
        return not is_short
