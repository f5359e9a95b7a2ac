"""How many requests one caller may send: a fixed window per API key, per public link, or per person in the console.

Every response carries how many are left: ``RateLimit-Limit``, ``RateLimit-Remaining``, ``RateLimit-Reset`` (seconds).
"""

import time

from django.conf import settings
from django.core.cache import cache
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from api.rest.authentication import Caller
from api.rest.requests import Allowance, ApiRequest
from console.errors import RateLimited
from console.sessions.sharing.models import ShareLink

WINDOW_S = 10
BYTES_PER_REQUEST = 16 << 10  # a body counts as one request more for each of these


class CallerThrottle(BaseThrottle):
    """Counts the requests of a known caller; one who is not known is refused before anything is done for them."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Raises RateLimited, which carries the time until the window ends."""
        if isinstance(request, ApiRequest) and isinstance(caller := request.auth, Caller):
            allowance_take(request, caller=caller.key.id if caller.key else f"person-{caller.user.pk}")
        elif isinstance(request, ApiRequest) and isinstance(link := request.auth, ShareLink):
            allowance_take(request, caller=link.id)
        return True


def allowance_take(request: ApiRequest, *, caller: str) -> None:
    """Count one request of ``caller``. Raises RateLimited when the window's are used up."""
    limit = max(1, settings.RATE_LIMIT_PER_MINUTE * WINDOW_S // 60)
    window, passed_s = divmod(time.time(), WINDOW_S)
    key = f"requests:{caller}:{window:.0f}"
    cache.add(key, 0, timeout=2 * WINDOW_S)
    taken = cache.incr(key, 1 + len(request.body) // BYTES_PER_REQUEST)
    allowance = Allowance(limit, max(0, limit - taken), max(1, round(WINDOW_S - passed_s)))
    request.allowance = allowance
    if taken > limit:
        raise RateLimited(
            f"More than {limit} requests in {WINDOW_S} seconds.",
            hint=f"Ask again in {allowance.reset_s} s, or ask for more at once: lists have a limit parameter.",
            details={"limit": limit, "retry_after_s": allowance.reset_s},
        )


def allowance_show(request: Request, response: HttpResponseBase) -> None:
    """Add the headers to the response; one to an unknown caller has none."""
    if isinstance(request, ApiRequest) and (allowance := request.allowance):
        response["RateLimit-Limit"] = str(allowance.limit)
        response["RateLimit-Remaining"] = str(allowance.remaining)
        response["RateLimit-Reset"] = str(allowance.reset_s)
