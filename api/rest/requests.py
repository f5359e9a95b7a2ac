"""The request as views get it: Django REST framework's, with typed ``auth`` and a body that can be
read again.
"""

import io
from dataclasses import dataclass

from django.http import HttpRequest
from rest_framework.request import Request

from api.rest.authentication import Caller
from console.sessions.models import Session
from console.sessions.sharing.models import ShareLink


@dataclass(frozen=True)
class Allowance:
    """How many requests a caller has in this window, how many of them are left, and when the next
    window begins.
    """

    limit: int
    remaining: int
    reset_s: int


class ApiRequest(Request):
    """A request of a known caller. ``allowance`` is there once the request was counted."""

    auth: Caller
    allowance: Allowance | None = None

    @property
    def http(self) -> HttpRequest:
        """Django's own request, which middleware and log filters see."""
        return self._request

    def _load_stream(self) -> None:
        # DRF would take a chunked body, which has no length, for an empty one.
        self._stream = io.BytesIO(self._request.body)


class LeaseRequest(Request):
    """A request of a runtime, as the views of its routes see it: ``auth`` is the session of its
    lease.
    """

    auth: Session


class ShareRequest(Request):
    """A request with a public link, as the views of its routes see it: ``auth`` is that link."""

    auth: ShareLink
