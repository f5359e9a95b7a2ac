"""Who is calling, and may they: an API key in ``Authorization: Bearer``, or the console's session cookie with CSRF."""

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest
from ninja.utils import check_csrf

from api.rate_limit import allowance_take
from console.errors import Forbidden, Unauthenticated
from console.logs import logs_bind
from console.sessions.leases import lease_check
from console.sessions.models import Session
from console.users.keys import key_authenticate
from console.users.models import ApiKey, Project, User
from console.users.selectors import project_get, role_get
from tinkerscript.wire.account import Role, Scope

READ = frozenset({Scope.SESSIONS_READ, Scope.CHECKPOINTS_READ})
ROLE_SCOPES = {
    Role.VIEWER: READ,
    Role.MEMBER: READ | {Scope.SESSIONS_WRITE, Scope.EPISODES},
    Role.OWNER: frozenset(Scope),
}


@dataclass(frozen=True)
class Caller:
    """A user acting in one project. ``key`` is None for a person in the console."""

    user: User
    project: Project
    scopes: frozenset[Scope]
    key: ApiKey | None = None


class Door:
    """Lets in a caller who has ``scope`` (None: anyone known); ``person_scope`` stands in its place without a key.

    ``people_only`` keeps every key out.
    """

    def __init__(self, scope: Scope | None, *, person_scope: Scope | None = None, people_only: bool = False) -> None:
        self.scope, self.person_scope, self.people_only = scope, person_scope or scope, people_only

    def __call__(self, request: HttpRequest) -> Caller:
        """Raises Unauthenticated, RateLimited, Forbidden, NotFound for a project that the person is not in."""
        caller = _caller_by_key(request) if "Authorization" in request.headers else _caller_by_cookie(request)
        allowance_take(request, caller=caller.key.id if caller.key else f"person-{caller.user.pk}")
        if self.people_only and caller.key:
            raise Forbidden("This is for people, not for keys.", hint=f"Sign in at {settings.PUBLIC_URL}.")
        needed = self.scope if caller.key else self.person_scope
        if needed is not None and needed not in caller.scopes:
            raise Forbidden(
                f"This needs the scope {needed}.",
                hint=f"Use a key that has it: {settings.PUBLIC_URL}/keys" if caller.key else "Ask an owner for a role.",
                details={"needed": needed, "scopes": sorted(caller.scopes)},
            )
        return caller


class LeaseDoor:
    """Lets in the runtime that holds a session's lease; ``request.auth`` is that session."""

    def __call__(self, request: HttpRequest) -> Session:
        """Raises Unauthenticated, StaleLease."""
        session = lease_check(token=bearer(request))
        logs_bind(session_id=session.id)
        return session


def bearer(request: HttpRequest) -> str:
    """The token of ``Authorization: Bearer``. Raises Unauthenticated for any other form of that header."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or not token.isascii() or not token.isprintable():
        raise _no_key("The Authorization header does not read `Bearer <API key>`.")
    return token


def _caller_by_key(request: HttpRequest) -> Caller:
    key = key_authenticate(secret=bearer(request))
    granted = frozenset(Scope) if Scope.ADMIN in key.scopes else frozenset(Scope(scope) for scope in key.scopes)
    # A key can do no more than its maker may by now.
    allowed = granted & ROLE_SCOPES[role_get(user=key.user, project=key.project)]
    return Caller(user=key.user, project=key.project, scopes=allowed, key=key)


def _caller_by_cookie(request: HttpRequest) -> Caller:
    if not request.user.is_authenticated:
        raise _no_key("This request carries no API key.")
    if check_csrf(request) is not None:
        raise Forbidden("The CSRF token is missing or wrong.", hint="Send the csrftoken cookie's value in X-CSRFToken.")
    # A path that names a project means that one; elsewhere a header chooses.
    named = request.resolver_match.kwargs.get("project_id") or request.headers.get("X-Project-Id")
    project = project_get(user=request.user, project_id=named)
    scopes = ROLE_SCOPES[role_get(user=request.user, project=project)]
    return Caller(user=request.user, project=project, scopes=scopes)


def _no_key(message: str) -> Unauthenticated:
    return Unauthenticated(
        message,
        hint=f"Make a key at {settings.PUBLIC_URL}/keys and send it as `Authorization: Bearer <key>`.",
    )
