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
from console.users.models import ApiKey

WINDOW_S = 10
BYTES_PER_REQUEST = 16 << 10  # a body counts as one request more for each of these
KEYS_OF_ONE = 5  # the keys of one person together may send as much as this many of them


class CallerThrottle(BaseThrottle):
    """Counts the requests of a known caller; one who is not known is refused before anything is done for them."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Raises RateLimited, which carries the time until the window ends."""
        if isinstance(request, ApiRequest) and isinstance(caller := request.auth, Caller):
            allowance_take(request, caller=caller.key.id if caller.key else f"person-{caller.user.pk}")
            if caller.key:
                _keys_take(caller.user.pk, len(request.body), request)
        elif isinstance(request, ApiRequest) and isinstance(link := request.auth, ShareLink):
            allowance_take(request, caller=link.id)
        return True


def allowance_take(request: ApiRequest, *, caller: str) -> None:
    """Count one request of ``caller``. Raises RateLimited when the window's are used up."""
    limit = _limit()
    taken, reset_s = _taken(caller, len(request.body))
    request.allowance = Allowance(limit, max(0, limit - taken), reset_s)
    if taken > limit:
        raise _limited(f"More than {limit} requests in {WINDOW_S} seconds.", request.allowance)


def key_requests_take(key: ApiKey, *, size_bytes: int) -> None:
    """Count one request with ``key`` that is of no view, with those that are. Raises RateLimited."""
    limit = _limit()
    taken, reset_s = _taken(key.id, size_bytes)
    if taken > limit:
        raise _limited(f"More than {limit} requests in {WINDOW_S} seconds.", Allowance(limit, 0, reset_s))
    _keys_take(key.user_id, size_bytes)


def _keys_take(person: int, size_bytes: int, request: ApiRequest | None = None) -> None:
    """Count it for all keys of the person too. Raises RateLimited."""
    limit = _limit() * KEYS_OF_ONE
    taken, reset_s = _taken(f"keys-of-{person}", size_bytes)
    if taken > limit:
        allowance = Allowance(limit, 0, reset_s)
        if request is not None:
            request.allowance = allowance
        raise _limited(f"More than {limit} requests in {WINDOW_S} seconds by all keys of one person.", allowance)


def _limit() -> int:
    return max(1, settings.RATE_LIMIT_PER_MINUTE * WINDOW_S // 60)


def _taken(caller: str, size_bytes: int) -> tuple[int, int]:
    """What ``caller`` has used in this window, with this request, and the seconds to the window's end."""
    window, passed_s = divmod(time.time(), WINDOW_S)
    key = f"requests:{caller}:{window:.0f}"
    cache.add(key, 0, timeout=2 * WINDOW_S)
    taken = cache.incr(key, 1 + size_bytes // BYTES_PER_REQUEST)
    return taken, max(1, round(WINDOW_S - passed_s))


def _limited(message: str, allowance: Allowance) -> RateLimited:
    return RateLimited(
        message,
        hint=f"Ask again in {allowance.reset_s} s, or ask for more at once: lists have a limit parameter.",
        details={"limit": allowance.limit, "retry_after_s": allowance.reset_s},
    )


def allowance_show(request: Request, response: HttpResponseBase) -> None:
    """Add the headers to the response; one to an unknown caller has none."""
    if isinstance(request, ApiRequest) and (allowance := request.allowance):
        response["RateLimit-Limit"] = str(allowance.limit)
        response["RateLimit-Remaining"] = str(allowance.remaining)
        response["RateLimit-Reset"] = str(allowance.reset_s)
