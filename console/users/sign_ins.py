"""Sign-ins, refused sign-ins, and changes of passwords and second factors: entries of the audit
log.

They stand in the log of the person's own project, the first that they own (in no other project that
they are in: its other members are no business of theirs), or in a log of their own,
``user:<number>``, if they own none. A try with an address without an account stands in
UNKNOWN_ACCOUNT_LOG: as much is written for it as for one with an account, and what was typed is
not, because it may be a password. An entry that cannot be written refuses the sign-in.
"""

from typing import Any

from allauth.account import signals as account
from allauth.account.adapter import get_adapter
from allauth.account.internal.userkit import filter_users_by_email
from allauth.mfa import signals as mfa
from allauth.mfa.models import Authenticator
from django.contrib.auth.signals import user_login_failed
from django.dispatch import Signal, receiver
from django.http import HttpRequest

from console.audit.models import AuditRecord
from console.audit.services import audit_find, audit_record
from console.server.request_id import request_id_of
from console.users.models import Membership, User
from tinkerscript.wire.account import Role

UNKNOWN_ACCOUNT_LOG = "nobody"  # ids of projects begin with prj_
UNKNOWN_ACTOR = "somebody"  # who tried to sign in has not shown who they are
AGENT_LENGTH = 200
KINDS = ("sign_", "second_factor_", "password_")  # how the actions below begin
# What a person has done themselves, and the action by which it is recorded.
OF_PERSONS = {
    account.user_logged_in: "sign_in",
    account.password_changed: "password_change",
    account.password_set: "password_change",
    account.password_reset: "password_reset",
    mfa.authenticator_added: "second_factor_add",
    mfa.authenticator_removed: "second_factor_remove",
    mfa.authenticator_reset: "second_factor_renew",
}


def sign_in_list(*, user: User, limit: int) -> list[AuditRecord]:
    """This person's sign-ins as recorded, newest first: in the logs of projects that they own, and
    in their own.
    """
    owned = Membership.objects.filter(user=user, role=Role.OWNER).values_list(
        "project_id", flat=True
    )
    return audit_find(
        logs=[*owned, _own_log(user)], kinds=KINDS, target={"email": user.email}, limit=limit
    )


@receiver(user_login_failed)
def sign_in_refused(
    credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any
) -> None:
    if request is not None:  # none: no browser's, a program of the operator's
        found = filter_users_by_email(str(credentials.get("email", "")))
        _record(request, found[0] if found else None, "sign_in_refuse", actor=UNKNOWN_ACTOR)


@receiver(mfa.authentication_failed)
def second_factor_refused(request: HttpRequest, user: User, **_: Any) -> None:
    _record(request, user, "second_factor_refuse", actor=UNKNOWN_ACTOR)


@receiver(account.user_logged_out)
def signed_out(request: HttpRequest, user: User | None = None, **_: Any) -> None:
    if user is not None:  # none: there was no sign-in to end
        _record(request, user, "sign_out")


def signed_out_elsewhere(request: HttpRequest, user: User, *, count: int) -> None:
    """Sign-ins of other browsers were ended from this one."""
    _record(request, user, "sign_out_elsewhere", sign_ins=count)


@receiver([*OF_PERSONS])
def done_by_person(
    signal: Signal,
    request: HttpRequest,
    user: User,
    authenticator: Authenticator | None = None,
    **_: Any,
) -> None:
    kind = {"kind": authenticator.type} if authenticator else {}
    _record(request, user, OF_PERSONS[signal], **kind)


def _record(
    request: HttpRequest,
    user: User | None,
    action: str,
    *,
    actor: str | None = None,
    **details: Any,
) -> None:
    """Write an entry to the person's log. ``actor``: who did it, where that is not ``user``."""
    if actor is None:
        assert user is not None, "what a person did is recorded with the person"
        actor = user.email
    audit_record(
        project_id=_log_of(user),
        actor=actor,
        action=action,
        target={"email": user.email} if user else {},
        details=details
        | {
            "address": get_adapter().get_client_ip(request),
            "agent": request.headers.get("User-Agent", "")[:AGENT_LENGTH],
        },
        request_id=request_id_of(request),
    )


def _log_of(user: User | None) -> str:
    if user is None:
        return UNKNOWN_ACCOUNT_LOG
    own = Membership.objects.filter(user=user, role=Role.OWNER).order_by("created_at", "id").first()
    return own.project_id if own else _own_log(user)


def _own_log(user: User) -> str:
    return f"user:{user.pk}"
