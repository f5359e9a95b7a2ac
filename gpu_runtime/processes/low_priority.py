"""Work at a lower priority than this process's other threads.

On Linux each thread has a priority of its own. Everyone may lower it and root alone may raise it
again, so it is lowered for a thread that ends with the work; threads that the work starts inherit
it.
"""

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

ResultT = TypeVar("ResultT")

# nice values: about a tenth of the time that another thread gets where both want the same processor
LOWER = 10
LOWEST = 19


def run_at_low_priority(work: Callable[[], ResultT]) -> ResultT:
    """What ``work`` returns; the caller waits for it. Raises what it raises. As it is where there
    is no Linux.
    """
    with ThreadPoolExecutor(
        max_workers=1, thread_name_prefix="low-priority", initializer=_priority_lower
    ) as thread:
        return thread.submit(work).result()


def _priority_lower() -> None:
    if sys.platform == "linux":
        own = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(
                os.PRIO_PROCESS, own, min(os.getpriority(os.PRIO_PROCESS, own) + LOWER, LOWEST)
            )
