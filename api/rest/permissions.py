"""What a route requires of its caller. One rule of the table of routes is one permission
instance; ``grants`` is by which name its views get the one who asks.
"""

from django.conf import settings
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from api.rest.authentication import (
    Caller,
    CookieAuthentication,
    KeyAuthentication,
    LeaseAuthentication,
    ShareAuthentication,
    key_missing,
)
from console.errors import Forbidden
from console.sessions.models import Session
from console.sessions.selectors import session_key_check
from console.sessions.sharing.models import ShareLink
from tinkerscript.wire.account import Scope


class RequireScope(BasePermission):
    """Requires a caller with ``scope`` (None: any known caller); a person needs ``person_scope``
    instead, if given.

    ``people_only`` refuses every key.
    """

    grants = "caller"
    authentication_classes: tuple[type[BaseAuthentication], ...] = (
        KeyAuthentication,
        CookieAuthentication,
    )

    def __init__(
        self, scope: Scope | None, *, person_scope: Scope | None = None, people_only: bool = False
    ) -> None:
        self.scope, self.person_scope, self.people_only = scope, person_scope or scope, people_only

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Raises Unauthenticated, Forbidden, NotFound: they say what is missing, which False could
        not.
        """
        caller = request.auth
        if not isinstance(caller, Caller):
            raise key_missing("This request carries no API key.")
        self.check(caller)
        session_id = getattr(view, "kwargs", {}).get("session_id")
        if session_id and caller.key and request.method not in SAFE_METHODS:
            session_key_check(project=caller.project, session_id=session_id, key=caller.key)
        return True

    def check(self, caller: Caller) -> None:
        """Raises Forbidden."""
        if self.people_only and caller.key:
            raise Forbidden(
                "This is for people, not for keys.", hint=f"Sign in at {settings.PUBLIC_URL}."
            )
        needed = self.scope if caller.key else self.person_scope
        if needed is not None and needed not in caller.scopes:
            raise Forbidden(
                f"This needs the scope {needed}.",
                hint=f"Use a key that has it: {settings.PUBLIC_URL}/keys"
                if caller.key
                else "Ask an owner for a role.",
                details={"needed": needed, "scopes": sorted(caller.scopes)},
            )


class RequireLease(BasePermission):
    """Requires the lease of a session."""

    grants = "session"
    authentication_classes: tuple[type[BaseAuthentication], ...] = (LeaseAuthentication,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.auth, Session)


class RequireShare(BasePermission):
    """Requires a public link, which says which session may be read."""

    grants = "link"
    authentication_classes: tuple[type[BaseAuthentication], ...] = (ShareAuthentication,)

    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.auth, ShareLink)
