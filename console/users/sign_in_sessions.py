"""Sign-ins that a copy of the database does not give away: a row is kept under the SHA-256 of what
its cookie holds.

This module is Django's SESSION_ENGINE. ``session_key`` is the row's key wherever code handles it;
the cookie's value exists in the browser and, while a request is served, in ``SessionStore.cookie``.
Cookies become row keys here and nowhere else: in a middleware for HTTP and one for websockets.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import get_random_string

COOKIE_LENGTH = 32  # of 36 characters: 165 random bits
ROW_KEY_LENGTH = 40  # what Django's column takes: 160 bits of the hash


class SessionStore(db.SessionStore):
    """Django's rows. ``cookie``: what the browser must send to be this session; None where only the
    row is known.
    """

    cookie: str | None = None

    @classmethod
    def of_cookie(cls, cookie: str | None) -> "SessionStore":
        """The session that this cookie is for; an empty one without a cookie."""
        store = cls(row_key(cookie) if cookie else None)
        store.cookie = cookie or None
        return store

    def _get_new_session_key(self) -> str:
        self.cookie = get_random_string(COOKIE_LENGTH, VALID_KEY_CHARS)
        return row_key(self.cookie)

    async def _aget_new_session_key(self) -> str:
        return self._get_new_session_key()


def row_key(cookie: str) -> str:
    """Under which key the row of a cookie is kept."""
    return hashlib.sha256(cookie.encode(errors="surrogateescape")).hexdigest()[:ROW_KEY_LENGTH]


class SignInMiddleware(SessionMiddleware):
    """``request.session`` of the request's cookie, and the cookie of a session that was made or
    renewed.
    """

    def process_request(self, request: HttpRequest) -> None:
        request.session = SessionStore.of_cookie(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
        request.session_at_first = request.session  # type: ignore[attr-defined]

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response = super().process_response(request, response)
        name = settings.SESSION_COOKIE_NAME
        sent = response.cookies.get(name)
        if sent is not None and sent.value:  # empty: the cookie is being removed
            # Without one of its own it was loaded anew by its row's key, while the request was
            # served.
            first: SessionStore = request.session_at_first  # type: ignore[attr-defined]
            cookie = str(getattr(request.session, "cookie", None) or first.cookie)
            sent.set(name, cookie, cookie)
        return response


class WebsocketSignIn:
    """``scope["session"]`` of the cookie that a websocket's handshake carried. Nothing is written
    back.
    """

    def __init__(self, inner: Callable[..., Awaitable[Any]]) -> None:
        self._inner = inner

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        session = SessionStore.of_cookie(scope["cookies"].get(settings.SESSION_COOKIE_NAME))
        await self._inner(scope | {"session": session}, receive, send)
