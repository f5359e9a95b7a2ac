"""Writes about users, their projects and their API keys."""

import hashlib
import hmac
import secrets
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from console.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unauthenticated
from console.users.models import ApiKey, Membership, Project, User, new_id
from console.users.selectors import role_get
from tinkerscript.wire.account import Role, Scope

KEY_PREFIX = "tml-ts_"
SHOWN_CHARACTERS = 12
LAST_USED_RESOLUTION = timedelta(minutes=1)


def user_create(*, email: str, password: str | None = None) -> User:
    """A user with a project of their own. Without a password nobody can sign in as them until one is set.

    Raises Conflict when the address is taken.
    """
    address = User.objects.normalize_email(email).lower()
    try:
        with transaction.atomic():
            user = User.objects.create_user(username=new_id("usr"), email=address, password=password)
            project_create_default(user=user)
    except IntegrityError:
        raise Conflict(f"{address} already has an account.", hint="Sign in instead.") from None
    return user


def project_create_default(*, user: User) -> Project:
    """The project that every user has; the user owns it."""
    return project_create(user=user, name=user.email.partition("@")[0])


def project_create(*, user: User, name: str) -> Project:
    """A project with ``user`` as its owner."""
    with transaction.atomic():
        project = Project.objects.create(name=name[:120])
        Membership.objects.create(project=project, user=user, role=Role.OWNER)
    return project


def key_create(
    *, project: Project, user: User, name: str, scopes: list[Scope], expires_in_days: int | None = None
) -> tuple[ApiKey, str]:
    """A key and its secret, which is not stored and cannot be shown again.

    Raises NotFound when the user is not in the project, Forbidden when their role is less than the scopes.
    """
    role = role_get(user=user, project=project)
    if not scopes:
        raise InvalidRequest("A key needs at least one scope.", details={"known": [scope.value for scope in Scope]})
    if role is Role.VIEWER and not set(scopes) <= {Scope.SESSIONS_READ, Scope.CHECKPOINTS_READ}:
        raise Forbidden("A viewer's keys can only read.", hint="Ask an owner of the project for the member role.")
    if role is not Role.OWNER and Scope.ADMIN in scopes:
        raise Forbidden("Only an owner can make an admin key.", hint="Leave the admin scope out.")
    secret = KEY_PREFIX + secrets.token_urlsafe(32)
    key = ApiKey.objects.create(
        project=project,
        user=user,
        name=name,
        prefix=secret[:SHOWN_CHARACTERS],
        sha256=_sha256(secret),
        scopes=[Scope(scope).value for scope in scopes],
        expires_at=timezone.now() + timedelta(days=expires_in_days) if expires_in_days else None,
    )
    return key, secret


def key_revoke(*, project: Project, key_id: str) -> None:
    """End a key, now and for ever; revoking it again changes nothing. Raises NotFound."""
    if not ApiKey.objects.filter(project=project, id=key_id).exists():
        raise NotFound("There is no such key in this project.")
    ApiKey.objects.filter(project=project, id=key_id, revoked_at=None).update(revoked_at=timezone.now())


def key_authenticate(*, secret: str) -> ApiKey:
    """The key whose secret this is. Raises Unauthenticated, in the same words whatever the reason."""
    digest = _sha256(secret)
    now = timezone.now()
    key = ApiKey.objects.select_related("project", "user").filter(sha256=digest).first()
    # The look-up compares hashes of 256 random bits, so its timing tells nothing; the comparison is repeated in
    # constant time all the same, so that this does not rest on how an index compares.
    if (
        key is None
        or not hmac.compare_digest(key.sha256, digest)
        or key.revoked_at is not None
        or (key.expires_at is not None and key.expires_at <= now)
        or not key.user.is_active
        or not Membership.objects.filter(project=key.project, user=key.user).exists()
    ):
        raise Unauthenticated(
            "This API key is not valid: it is unknown, revoked or expired.",
            hint=f"Make a new one at {settings.PUBLIC_URL}/keys and set TINKERSCRIPT_API_KEY to it.",
        )
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_RESOLUTION)
    if key.last_used_at is None or key.last_used_at < now - LAST_USED_RESOLUTION:
        ApiKey.objects.filter(stale, id=key.id).update(last_used_at=now)
    return key


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
