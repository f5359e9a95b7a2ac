"""API keys: make, end, recognise, and what one may be used for."""

import hashlib
import hmac
import re
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Q, QuerySet
from django.utils import timezone

from console.config.full_disk import disk_full_of
from console.errors import Forbidden, InvalidRequest, NotFound, QuotaExceeded, Unauthenticated
from console.users.models import ApiKey, Membership, Project, User
from console.users.selectors import role_get
from tinkerscript.wire.account import Role, Scope

KEY_PREFIX = "tml-ts_"
PERSON = "user"  # how a person's caller id begins; a key's begins with key_
# What follows it. A runtime signs both, and may write anything.
PERSON_ID = re.compile(
    r"(?P<user_id>[0-9]{1,18}):(?P<project_id>\w{1,40}):(?P<member_id>\w{1,40})", re.ASCII
)
KEY_ID = re.compile(r"\w{1,40}", re.ASCII)
SHOWN_CHARACTERS = 12
LAST_USED_RESOLUTION = timedelta(minutes=1)


def key_create(
    *,
    project: Project,
    user: User,
    name: str,
    scopes: list[Scope],
    expires_in_days: int | None = None,
    allowed_models: list[str] | None = None,
    spend_cap_s: int | None = None,
) -> tuple[ApiKey, str]:
    """A key and its secret, which is not stored and cannot be shown again.

    Raises NotFound when the user is not in the project, Forbidden when their role is less than the
    scopes, QuotaExceeded.
    """
    role = role_get(user=user, project=project)
    if not scopes:
        raise InvalidRequest(
            "A key needs at least one scope.", details={"known": [scope.value for scope in Scope]}
        )
    if role is Role.VIEWER and not set(scopes) <= {Scope.SESSIONS_READ, Scope.CHECKPOINTS_READ}:
        raise Forbidden(
            "A viewer's keys can only read.",
            hint="Ask an owner of the project for the member role.",
        )
    if role is not Role.OWNER and Scope.ADMIN in scopes:
        raise Forbidden("Only an owner can make an admin key.", hint="Leave the admin scope out.")
    if Scope.ADMIN in scopes and (allowed_models is not None or spend_cap_s is not None):
        raise InvalidRequest(
            "An admin key can make keys without limits, so limits of its own would mean nothing.",
            hint="Leave the admin scope out, or the limits.",
        )
    _limit_check(user)
    secret = KEY_PREFIX + secrets.token_urlsafe(32)
    key = ApiKey.objects.create(
        project=project,
        user=user,
        name=name,
        prefix=secret[:SHOWN_CHARACTERS],
        sha256=sha256_of(secret),
        scopes=[Scope(scope).value for scope in scopes],
        allowed_models=allowed_models,
        spend_cap_s=spend_cap_s,
        expires_at=timezone.now() + timedelta(days=expires_in_days) if expires_in_days else None,
    )
    return key, secret


def _limit_check(user: User) -> None:
    limit = settings.LIMITS.keys
    if limit is None:
        return
    good = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    used = ApiKey.objects.filter(good, user=user, revoked_at=None).count()
    if used >= limit:
        raise QuotaExceeded(
            f"One person may have {limit} keys, and you have {used}.",
            hint="Revoke one that is no longer used.",
            details={"limit": limit, "used": used},
        )


def key_revoke(*, project: Project, user: User, key_id: str) -> None:
    """End a key, now and for ever; revoking it again changes nothing.

    An owner ends every key of the project, others their own. Raises NotFound, Forbidden.
    """
    key = ApiKey.objects.filter(project=project, id=key_id).first()
    if key is None:
        raise NotFound("There is no such key in this project.")
    if key.user != user and role_get(user=user, project=project) is not Role.OWNER:
        raise Forbidden(
            "This key is another member's.",
            hint="Its maker or an owner of the project can revoke it.",
        )
    ApiKey.objects.filter(id=key.id, revoked_at=None).update(revoked_at=timezone.now())


def key_authenticate(*, secret: str) -> ApiKey:
    """The key whose secret this is. Raises Unauthenticated, in the same words for every reason."""
    digest = sha256_of(secret)
    now = timezone.now()
    key = next(iter(ApiKey.objects.select_related("project", "user").filter(sha256=digest)), None)
    # The look-up compares hashes of 256 random bits, so its timing reveals nothing; the comparison
    # is repeated in constant time all the same, so that this does not rest on how an index
    # compares.
    if key is None or not hmac.compare_digest(key.sha256, digest) or not _is_good(key, now):
        raise Unauthenticated(
            "This API key is not valid: it is unknown, revoked or expired.",
            hint=f"Make a new one at {settings.PUBLIC_URL}/keys and set TINKERSCRIPT_API_KEY to "
            "it.",
        )
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_RESOLUTION)
    if key.last_used_at is None or key.last_used_at < now - LAST_USED_RESOLUTION:
        try:
            ApiKey.objects.filter(stale, id=key.id).update(last_used_at=now)
        except DatabaseError as error:  # what only reads goes on while the disk is full
            if disk_full_of(error) is None:
                raise
    return key


def key_good_get(*, key_id: str) -> ApiKey:
    """A key that is neither revoked nor expired. Raises Unauthenticated."""
    key = ApiKey.objects.select_related("project", "user").filter(id=key_id).first()
    if key is None or not _is_good(key, timezone.now()):
        raise Unauthenticated(
            "The API key of this token is revoked or expired.", hint="Make another key."
        )
    return key


def person_caller_id(*, membership: Membership) -> str:
    """What stands for a person in the signed key of an episode, where a key's id stands otherwise.

    It names their membership: who is removed and invited again has another one.
    """
    return f"{PERSON}:{membership.user_id}:{membership.project_id}:{membership.member_id}"


def person_get(*, caller_id: str) -> tuple[Project, User]:
    """Who a ``person_caller_id`` stands for, and in which project. Raises Unauthenticated for who
    may ask no model any more.
    """
    named = PERSON_ID.fullmatch(caller_id.removeprefix(f"{PERSON}:"))
    found = _memberships(**named.groupdict()).first() if named else None
    if found is None or found.user is None:
        raise Unauthenticated("Who made this key may ask the models of its project no more.")
    return found.project, found.user


def caller_is_good(*, caller_id: str) -> bool:
    """Whether what this key or person began may go on: for the relay, which has the id from an
    episode's key.
    """
    kind, _, rest = caller_id.partition(":")
    if kind == PERSON:
        return (named := PERSON_ID.fullmatch(rest)) is not None and _memberships(
            **named.groupdict()
        ).exists()
    if KEY_ID.fullmatch(caller_id) is None:
        return False
    try:
        key = key_good_get(key_id=caller_id)
    except Unauthenticated:
        return False
    return key_role(key=key) is not Role.VIEWER  # a viewer runs no episodes


def _memberships(user_id: str, project_id: str, member_id: str) -> QuerySet[Membership]:
    """At most one; a viewer runs no episodes."""
    of = {"user_id": int(user_id), "project_id": project_id, "member_id": member_id}
    good = Membership.objects.filter(user__is_active=True, **of).exclude(role=Role.VIEWER)
    return good.select_related("user", "project")


def key_model_check(*, key: ApiKey | None, base_model: str) -> None:
    """Raises Forbidden when the key may not be used with this model. A person (None) may use every
    one.
    """
    if key is None or key.allowed_models is None or base_model in key.allowed_models:
        return
    raise Forbidden(
        f"This key may not be used with {base_model}.",
        hint=f"It may be used with: {', '.join(key.allowed_models)}. Others need another key.",
        details={"allowed_models": key.allowed_models},
    )


def key_session_check(*, key: ApiKey, base_model: str, started_by: str | None) -> None:
    """Raises Forbidden when the key may not change a session of ``base_model`` that the key
    ``started_by`` started.

    What runs in a session counts against the cap of the key that started it: a capped key changes
    no other.
    """
    key_model_check(key=key, base_model=base_model)
    key_cap_check(key=key, started_by=started_by)


def key_cap_check(*, key: ApiKey, started_by: str | None) -> None:
    """Raises Forbidden when the key has a spend cap, and another key (``started_by``) or a person
    has started this.
    """
    if key.spend_cap_s is not None and started_by != key.id:
        raise Forbidden(
            "This key has a spend cap, and another key or a person started this session.",
            hint="Use it with sessions that it started itself, or use a key without a cap.",
        )


def key_role(*, key: ApiKey) -> Role:
    """What its maker may do in its project, of a key that was found good: as it was read then."""
    assert key.maker_role is not None, "only a key that was found good is asked for"
    return Role(key.maker_role)


def _is_good(key: ApiKey, now: datetime) -> bool:
    if (
        key.revoked_at is not None
        or (key.expires_at is not None and key.expires_at <= now)
        or not key.user.is_active
    ):
        return False
    made_by = Membership.objects.filter(project_id=key.project_id, user_id=key.user_id).order_by()
    key.maker_role = next(iter(made_by.values_list("role", flat=True)[:1]), None)
    return key.maker_role is not None


def sha256_of(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()
