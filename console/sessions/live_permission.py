"""Who may watch a session or a project live: the API key or the signed-in person behind a
websocket.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from console.errors import Forbidden, NotFound, Unauthenticated
from console.server.address_limit import caller_known
from console.server.ttl_cache import TtlCache
from console.sessions.selectors import session_get
from console.users.keys import key_authenticate
from console.users.models import Project, User
from console.users.selectors import project_list
from tinkerscript.wire.account import Scope

HINT = (
    f"Sign in at {settings.PUBLIC_URL}, or send `Authorization: Bearer <API key>` with the "
    "handshake."
)


FRESH_S = 0.2  # a thousand watchers with one key cost one query


class _Watched(NamedTuple):
    """What is remembered: those of one credential who watch the same are one."""

    credential: bytes
    id: str
    check: Callable[[Mapping[str, Any], str], None]


async def _checked(watched: _Watched, scope: Mapping[str, Any]) -> None:
    await database_sync_to_async(watched.check)(scope, watched.id)


_permissions: TtlCache[_Watched, None] = TtlCache(_checked, fresh_s=FRESH_S)


async def live_permission_check(scope: Mapping[str, Any], session_id: str) -> None:
    """Raises Unauthenticated, Forbidden, NotFound when this websocket may not watch the session.

    It may be asked again while the websocket lives; what was allowed less than FRESH_S ago is, and
    who asks during a check gets what comes of it.
    """
    await _permissions.get(_watched(_session_check, scope, session_id), scope)


async def project_permission_check(scope: Mapping[str, Any], project_id: str) -> None:
    """As ``live_permission_check``, for all sessions of a project."""
    await _permissions.get(_watched(_project_check, scope, project_id), scope)


def _watched(
    check: Callable[[Mapping[str, Any], str], None], scope: Mapping[str, Any], watched_id: str
) -> _Watched:
    headers = dict(scope["headers"])
    credential = headers.get(b"authorization") or headers.get(b"cookie", b"")
    who = hashlib.sha256(credential + b"|" + headers.get(b"origin", b"")).digest()
    return _Watched(who, watched_id, check)


def _session_check(scope: Mapping[str, Any], session_id: str) -> None:
    for project in _projects(scope):
        try:
            session_get(project=project, session_id=session_id)
            return
        except NotFound:
            continue
    raise NotFound("There is no such session, or it is not yours.")


def _project_check(scope: Mapping[str, Any], project_id: str) -> None:
    if project_id not in {project.id for project in _projects(scope)}:
        raise NotFound("There is no such project, or it is not yours.")


def _projects(scope: Mapping[str, Any]) -> list[Project]:
    headers = dict(scope["headers"])
    if b"authorization" in headers:
        kind, _, secret = headers[b"authorization"].decode("latin-1").partition(" ")
        if kind.lower() != "bearer":
            raise Unauthenticated(
                "The Authorization header does not read `Bearer <API key>`.", hint=HINT
            )
        key = key_authenticate(secret=secret.strip())
        caller_known()
        if not {Scope.SESSIONS_READ, Scope.ADMIN} & set(key.scopes):
            raise Forbidden(f"This needs the scope {Scope.SESSIONS_READ}.")
        return [key.project]
    user = _signed_in(scope)
    if user is None:
        raise Unauthenticated("This websocket carries no API key and no sign-in.", hint=HINT)
    caller_known()
    if not _is_our_page(headers):
        raise Forbidden("A page of another origin may not watch with this sign-in.")
    return [membership.project for membership in project_list(user=user)]


def _signed_in(scope: Mapping[str, Any]) -> User | None:
    """The person whose cookie the handshake carried, if it would let them in now.

    The scope's user and session are as of the handshake. Who signed out since then has no row any
    more; other browsers' rows stay after a new password, and expired ones for a while, until they
    are used again.
    """
    user, session = scope.get("user"), scope["session"]
    if user is None or not user.is_authenticated:
        return None
    rows = session.model.objects.filter(
        session_key=session.session_key, expire_date__gt=timezone.now()
    )
    if not rows.exists():
        return None
    now = User.objects.filter(pk=user.pk, is_active=True).first()
    if now is None:
        return None
    good = [now.get_session_auth_hash(), *now.get_session_auth_fallback_hash()]
    signed = session.get(HASH_SESSION_KEY, "")
    return now if any([constant_time_compare(signed, each) for each in good]) else None


def _is_our_page(headers: dict[bytes, bytes]) -> bool:
    """Browsers send cookies with any page's websocket and name the page's origin: it must be
    ours.
    """
    origin = headers.get(b"origin", b"").decode("latin-1")
    return origin in settings.CSRF_TRUSTED_ORIGINS or urlsplit(origin).netloc == headers.get(
        b"host", b""
    ).decode("latin-1")
