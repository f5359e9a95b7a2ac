"""How often one caller may ask: a fixed window per API key, or per person in the console.

Every answer says where the caller stands: ``RateLimit-Limit``, ``RateLimit-Remaining``, ``RateLimit-Reset`` (seconds).
"""

import time
from dataclasses import dataclass

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse

from console.errors import RateLimited

WINDOW_S = 10


@dataclass(frozen=True)
class Allowance:
    """Where a caller stands in this window."""

    limit: int
    remaining: int
    reset_s: int


def allowance_take(request: HttpRequest, *, caller: str) -> None:
    """Count one request of ``caller``. Raises RateLimited when the window's are used up."""
    limit = max(1, settings.RATE_LIMIT_PER_MINUTE * WINDOW_S // 60)
    window, passed_s = divmod(time.time(), WINDOW_S)
    key = f"requests:{caller}:{window:.0f}"
    cache.add(key, 0, timeout=2 * WINDOW_S)
    taken = cache.incr(key)
    allowance = Allowance(limit, max(0, limit - taken), max(1, round(WINDOW_S - passed_s)))
    request.allowance = allowance
    if taken > limit:
        raise RateLimited(
            f"More than {limit} requests in {WINDOW_S} seconds.",
            hint=f"Ask again in {allowance.reset_s} s, or ask for more at once: lists have a limit parameter.",
            details={"limit": limit, "retry_after_s": allowance.reset_s},
        )


def allowance_show(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The answer with the headers; one to nobody that is known has none."""
    allowance = getattr(request, "allowance", None)
    if allowance is not None:
        response["RateLimit-Limit"] = str(allowance.limit)
        response["RateLimit-Remaining"] = str(allowance.remaining)
        response["RateLimit-Reset"] = str(allowance.reset_s)
    return response
