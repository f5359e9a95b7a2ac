"""A deadline for what has none of its own: a database whose lock another holds, an engine that
hangs.
"""

import threading
import time
from collections.abc import Callable

LOOK_EVERY_S = 0.1


def ended_within(
    timeout_s: float, work: Callable[[], None], *, stopped: Callable[[], bool] = lambda: False
) -> bool:
    """Run ``work`` in a thread, and wait for it so long, or until ``stopped()``; whether it ended.

    What has not ended goes on, and is broken off where this process ends.
    """
    thread = threading.Thread(target=work, name="within-a-deadline", daemon=True)
    thread.start()
    deadline = time.monotonic() + timeout_s
    while thread.is_alive() and time.monotonic() < deadline and not stopped():
        thread.join(LOOK_EVERY_S)
    return not thread.is_alive()
