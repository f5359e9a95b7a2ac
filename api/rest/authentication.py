"""Authentication classes: an API key in ``Authorization: Bearer``, the console's cookie with CSRF,
a runtime's lease.

Each returns ``(user, auth)``; ``auth`` is a Caller, the session of the lease, or a link to a run.
"""

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.http import HttpRequest, HttpResponse
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from console.errors import Forbidden, Unauthenticated
from console.server.address_limit import caller_known
from console.server.logs import logs_bind
from console.sessions.models import Session
from console.sessions.runtime.leases import lease_check
from console.sessions.sharing.models import ShareLink
from console.sessions.sharing.services import share_authenticate
from console.users.keys import key_authenticate, key_role, person_caller_id
from console.users.models import ApiKey, Project, User
from console.users.selectors import membership_get, project_get
from console.users.sign_in_sessions import SignInMiddleware
from tinkerscript.wire.account import Role, Scope

READ_SCOPES = frozenset({Scope.SESSIONS_READ, Scope.CHECKPOINTS_READ})
ROLE_SCOPES = {
    Role.VIEWER: READ_SCOPES,
    Role.MEMBER: READ_SCOPES | {Scope.SESSIONS_WRITE, Scope.EPISODES},
    Role.OWNER: frozenset(Scope),
}


@dataclass(frozen=True)
class Caller:
    """A user acting in one project. ``key`` is None for a person in the console. What is begun ends
    with ``id``.
    """

    user: User
    project: Project
    scopes: frozenset[Scope]
    id: str
    key: ApiKey | None = None

    @property
    def is_operator(self) -> bool:
        """Who runs the server, signed in. A key of theirs is not: it is made for one project."""
        return self.key is None and self.user.is_staff


@dataclass(frozen=True)
class KeyCaller(Caller):
    """A caller by an API key."""

    key: ApiKey


def key_caller(key: ApiKey) -> KeyCaller:
    """Who calls with this key: it can do no more than its maker may by now."""
    granted = (
        frozenset(Scope)
        if Scope.ADMIN in key.scopes
        else frozenset(Scope(scope) for scope in key.scopes)
    )
    allowed = granted & ROLE_SCOPES[key_role(key=key)]
    return KeyCaller(user=key.user, project=key.project, scopes=allowed, id=key.id, key=key)


class KeyAuthentication(BaseAuthentication):
    """An API key. It acts in its own project."""

    def authenticate(self, request: Request) -> tuple[User, Caller] | None:
        """None without an Authorization header. Raises Unauthenticated."""
        if "Authorization" not in request.headers:
            return None
        caller = key_caller(key_authenticate(secret=bearer(request)))
        caller_known()
        return caller.user, caller


class CookieAuthentication(BaseAuthentication):
    """A person signed in to the console. The path, else X-Project-Id, chooses one of their
    projects.
    """

    def authenticate(self, request: Request) -> tuple[User, Caller] | None:
        """None for one who is not signed in. Raises Forbidden without a CSRF token, NotFound for a
        foreign project.
        """
        http = request._request  # noqa: SLF001 - DRF's only name for Django's request
        if not hasattr(http, "user"):  # no middleware for browsers stands before a view that waits
            SignInMiddleware(_no_view).process_request(http)
            AuthenticationMiddleware(_no_view).process_request(http)
        user = http.user
        if not isinstance(user, User) or not user.is_active:
            return None
        caller_known()
        _csrf_check(http)
        match = request.resolver_match
        named = (match.kwargs.get("project_id") if match else None) or request.headers.get(
            "X-Project-Id"
        )
        project = project_get(user=user, project_id=named)
        membership = membership_get(user=user, project=project)
        caller_id = person_caller_id(membership=membership)
        return user, Caller(
            user=user, project=project, scopes=ROLE_SCOPES[Role(membership.role)], id=caller_id
        )


class ShareAuthentication(BaseAuthentication):
    """A public link to a run, whose token is sent as a key would be. There is no user."""

    def authenticate(self, request: Request) -> tuple[None, ShareLink]:
        """Raises Unauthenticated."""
        link = share_authenticate(token=bearer(request))
        caller_known()
        return None, link


class LeaseAuthentication(BaseAuthentication):
    """The lease of a session, which its runtime holds. There is no user."""

    def authenticate(self, request: Request) -> tuple[None, Session]:
        """Raises Unauthenticated, StaleLease."""
        session = lease_check(token=bearer(request))
        caller_known()
        logs_bind(session_id=session.id)
        return None, session


def bearer(request: HttpRequest | Request) -> str:
    """The token of ``Authorization: Bearer``. Raises Unauthenticated for any other form of that
    header.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or not token.isascii() or not token.isprintable():
        raise key_missing("The Authorization header does not read `Bearer <API key>`.")
    return token


def key_missing(message: str) -> Unauthenticated:
    """The error whose hint tells where to make a key."""
    return Unauthenticated(
        message,
        hint=f"Make a key at {settings.PUBLIC_URL}/keys and send it as `Authorization: Bearer "
        "<key>`.",
    )


def _csrf_check(request: HttpRequest) -> None:
    """Raises Forbidden for a request that writes and does not carry the token of the cookie."""
    _ = request.body  # kept, because the check reads a form from the connection
    check = CSRFCheck(_no_view)
    check.process_request(request)
    if check.process_view(request, _no_view, (), {}):
        raise Forbidden(
            "The CSRF token is missing or wrong.",
            hint="Send the csrftoken cookie's value in X-CSRFToken.",
        )


def _no_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse()
