"""How many requests one caller may send: a fixed window per API key, per public link, or per person
in the console.

Every response carries how many are left: ``RateLimit-Limit``, ``RateLimit-Remaining``,
``RateLimit-Reset`` (seconds).
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
KEYS_OF_ONE = 5  # the keys of one person together may send as much as this many of them


class CallerThrottle(BaseThrottle):
    """Counts the requests of a known caller; one who is not known is refused before anything is
    done for them.
    """

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Raises RateLimited, which carries the time until the window ends."""
        if isinstance(request, ApiRequest) and isinstance(
            caller := request.auth, Caller | ShareLink
        ):
            requests_take(caller, size_bytes=len(request.body), request=request)
        return True


def requests_take(
    caller: Caller | ShareLink, *, size_bytes: int, request: ApiRequest | None = None
) -> None:
    """Count one request, for all keys of its person too; ``request`` gets what is left. Raises
    RateLimited.
    """
    limit = max(1, settings.RATE_LIMIT_PER_MINUTE * WINDOW_S // 60)
    if isinstance(caller, Caller) and caller.key:
        _take(caller.key.id, limit, size_bytes, request)
        _take(
            f"keys-of-{caller.user.pk}",
            limit * KEYS_OF_ONE,
            size_bytes,
            request,
            " by all keys of one person",
        )
    else:
        _take(
            f"person-{caller.user.pk}" if isinstance(caller, Caller) else caller.id,
            limit,
            size_bytes,
            request,
        )


def _take(
    name: str, limit: int, size_bytes: int, request: ApiRequest | None, whose: str = ""
) -> None:
    window, passed_s = divmod(time.time(), WINDOW_S)
    key = f"requests:{name}:{window:.0f}"
    cache.add(key, 0, timeout=2 * WINDOW_S)
    taken = cache.incr(key, 1 + size_bytes // BYTES_PER_REQUEST)
    reset_s = max(1, round(WINDOW_S - passed_s))
    if request is not None and (not whose or taken > limit):
        request.allowance = Allowance(limit, max(0, limit - taken), reset_s)
    if taken > limit:
        raise RateLimited(
            f"More than {limit} requests in {WINDOW_S} seconds{whose}.",
            hint=f"Ask again in {reset_s} s, or ask for more at once: lists have a limit "
            "parameter.",
            details={"limit": limit, "retry_after_s": reset_s},
        )


def allowance_show(request: Request, response: HttpResponseBase) -> None:
    """Add the headers to the response; one to an unknown caller has none."""
    if isinstance(request, ApiRequest) and (allowance := request.allowance):
        response["RateLimit-Limit"] = str(allowance.limit)
        response["RateLimit-Remaining"] = str(allowance.remaining)
        response["RateLimit-Reset"] = str(allowance.reset_s)
