"""What a job over two nodes says after processes of it were killed or stopped."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psutil

MINUTE_S = 60


def found_within_a_minute(
    lost: Sequence[psutil.Process], how: int, found: Callable[[], Any]
) -> Any:
    """Send the signal ``how`` to all in their order; return what ``found`` does. None of them is
    left.
    """
    for process in lost:
        process.send_signal(how)
    began = time.monotonic()
    try:
        result = found()
        assert time.monotonic() - began < MINUTE_S
    finally:
        for process in reversed(lost):
            with suppress(psutil.NoSuchProcess):
                process.resume()
                process.kill()
    return result
