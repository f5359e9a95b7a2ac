"""How many requests one caller may send: a fixed window per API key, per public link, or per person
in the console.

Every response carries how many are left: ``RateLimit-Limit``, ``RateLimit-Remaining``,
``RateLimit-Reset`` (seconds).
"""

import time
from collections.abc import MutableMapping

from django.conf import settings
from django.core.cache import cache

from api.rest.authentication import Caller
from console.errors import RateLimited
from console.sessions.sharing.models import ShareLink

WINDOW_S = 10
BYTES_PER_REQUEST = 16 << 10  # a body counts as one request more for each of these
KEYS_OF_ONE = 5  # the keys of one person together may send as much as this many of them


def requests_take(
    caller: Caller | ShareLink,
    *,
    size_bytes: int,
    headers: MutableMapping[str, str] | None = None,
) -> None:
    """Count one request, for all keys of its person too; ``headers`` gets what is left. Raises
    RateLimited, which carries the time until the window ends.
    """
    limit = max(1, settings.RATE_LIMIT_PER_MINUTE * WINDOW_S // 60)
    told = {} if headers is None else headers
    if isinstance(caller, Caller) and caller.key:
        _take(caller.key.id, limit, size_bytes, told)
        name, whose = f"keys-of-{caller.user.pk}", " by all keys of one person"
        _take(name, limit * KEYS_OF_ONE, size_bytes, told, whose)
    else:
        name = f"person-{caller.user.pk}" if isinstance(caller, Caller) else caller.id
        _take(name, limit, size_bytes, told)


def _take(
    name: str, limit: int, size_bytes: int, headers: MutableMapping[str, str], whose: str = ""
) -> None:
    window, passed_s = divmod(time.time(), WINDOW_S)
    key = f"requests:{name}:{window:.0f}"
    cache.add(key, 0, timeout=2 * WINDOW_S)
    taken = cache.incr(key, 1 + size_bytes // BYTES_PER_REQUEST)
    reset_s = max(1, round(WINDOW_S - passed_s))
    if not whose or taken > limit:
        headers["RateLimit-Limit"] = str(limit)
        headers["RateLimit-Remaining"] = str(max(0, limit - taken))
        headers["RateLimit-Reset"] = str(reset_s)
    if taken > limit:
        raise RateLimited(
            f"More than {limit} requests in {WINDOW_S} seconds{whose}.",
            hint=f"Ask again in {reset_s} s, or ask for more at once: lists have a limit "
            "parameter.",
            details={"limit": limit, "retry_after_s": reset_s},
        )
