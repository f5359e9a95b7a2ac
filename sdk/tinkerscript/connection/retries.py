"""Which failures are transient, so that the same request is sent again, and after how long.

One rule for the requests of sessions, of workers and of the command line, for files from the store
and for a judge.
"""

import random
from collections.abc import Mapping

from tinkerscript.errors import ServerUnreachable, TinkerScriptError
from tinkerscript.wire.errors import ErrorCode

FIRST_BACKOFF_S = 0.2
MAX_BACKOFF_S = 10.0
MAX_RETRY_AFTER_S = 60.0
# A request that was too slow, came too early or too often (408, 425, 429); a server that is away,
# busy or starting (502, 503, 504), and what content networks and model providers return for the
# same (520 to 524, 529). 507 is not among them: a disk stays full.
TRANSIENT_STATUSES = frozenset({408, 425, 429, 502, 503, 504, 520, 521, 522, 523, 524, 529})
# no outage: the caller decides how long it waits for a session
WAITS_FOR_SESSION = ErrorCode.SESSION_NOT_READY


def is_transient(error: TinkerScriptError) -> bool:
    """Of what a request to our own server raised: whether it is away, or its status is one of
    those."""
    if error.status is None:
        return isinstance(error, ServerUnreachable)
    return error.status in TRANSIENT_STATUSES and error.code != WAITS_FOR_SESSION


def is_transient_status(status: int) -> bool:
    """The same of a status of a store or a model provider. There 500 is transient too; of our
    server it is a bug."""
    return status == 500 or status in TRANSIENT_STATUSES


def backoff_s(attempt: int) -> float:
    """Seconds to wait after failed try number ``attempt`` (from 0): doubling, capped, with jitter
    to spread clients."""
    most = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(attempt, 16))
    return most * random.uniform(0.5, 1.0)


def delay_s(attempt: int, retry_after_s: float | None) -> float:
    """Seconds until the next try: what the server asked for, within bounds, or else
    ``backoff_s(attempt)``."""
    if retry_after_s is None:
        return backoff_s(attempt)
    # At least a little, so that "Retry-After: 0" from a broken server is no busy loop.
    return min(max(retry_after_s, FIRST_BACKOFF_S / 2), MAX_RETRY_AFTER_S)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds. Its other form, a date, is treated as absent: our own back-off then
    applies."""
    value = headers.get("retry-after")
    try:
        seconds = float(value) if value is not None else None
    except ValueError:
        return None
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None
