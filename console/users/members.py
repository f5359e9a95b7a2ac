"""Who works in a project: invite by e-mail, change a role, remove, leave.

An address is invited whether it has an account or not, and the response is the same: it does not
reveal who has an account. A person joins by accepting, never by being added.
"""

import hashlib
import time

from allauth.account.models import EmailAddress
from django.conf import settings
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from console.audit.services import audit_record
from console.errors import Conflict, Forbidden, InvalidRequest, NotFound, RateLimited
from console.users.models import ApiKey, Membership, Project, User
from console.users.selectors import role_get
from console.users.services import project_create_default
from console.users.sign_up import address_check
from tinkerscript.wire.account import Role

MAX_INVITATIONS = 100
DAY_S = 86_400
MAX_SENT_A_DAY = 50  # by one person
MAX_RECEIVED_A_DAY = 5  # by one address, of all projects


def member_list(*, project: Project) -> QuerySet[Membership]:
    """The members of a project and those who are invited, oldest first."""
    return Membership.objects.select_related("user").filter(project=project).order_by("id")


def member_get(*, project: Project, member_id: str) -> Membership:
    """One of them. Raises NotFound."""
    member = member_list(project=project).filter(member_id=member_id).first()
    if member is None:
        raise NotFound("There is no such member in this project.")
    return member


def member_invite(*, project: Project, email: str, role: Role, by: User) -> Membership:
    """Invite an address. Raises InvalidRequest for what is none, Conflict when it is a member or
    invited already, or too many are; Forbidden and RateLimited as ``_mail_check``.
    """
    address = email.lower()
    try:
        address_check(address)
    except ValidationError:
        raise InvalidRequest(
            "This is no e-mail address.", hint="It reads name@example.com."
        ) from None
    _mail_check(sender=by, address=address)
    with transaction.atomic():
        if Membership.objects.filter(project=project, user__email=address).exists():
            raise Conflict(f"{address} is a member already.", hint="Change their role instead.")
        if Membership.objects.filter(project=project, user=None).count() >= MAX_INVITATIONS:
            raise Conflict(
                f"{MAX_INVITATIONS} invitations are open.",
                hint="Withdraw those that are not taken.",
            )
        try:
            with transaction.atomic():
                member = Membership.objects.create(project=project, email=address, role=role)
        except IntegrityError:
            raise Conflict(
                f"{address} is invited already.", hint="Withdraw the invitation to change it."
            ) from None
        # robust: a mail server that is away costs the mail, not the invitation, which the console
        # shows as well.
        transaction.on_commit(lambda: _mail_send(sender=by, address=address), robust=True)
    return member


def member_role_set(*, project: Project, member_id: str, role: Role) -> Membership:
    """Change a role, of a member or an invitation. Raises NotFound, Conflict for the last owner."""
    with transaction.atomic():
        # two owners who demote each other take turns
        Project.objects.select_for_update(no_key=True).get(id=project.id)
        member = member_get(project=project, member_id=member_id)
        if role is not Role.OWNER:
            _another_owner_check(member)
        member.role = role
        member.save(update_fields=["role"])
    return member


def member_remove(*, project: Project, user: User, member_id: str) -> None:
    """Remove a member, or withdraw an invitation. An owner removes any member, others only
    themselves.

    The member's keys of this project end with it. Raises NotFound, Forbidden, Conflict for the last
    owner.
    """
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(id=project.id)
        member = member_get(project=project, member_id=member_id)
        if member.user != user and role_get(user=user, project=project) is not Role.OWNER:
            raise Forbidden(
                "Only an owner can remove another member.", hint="Ask an owner of the project."
            )
        _another_owner_check(member)
        member.delete()
        if member.user is None:
            return
        ApiKey.objects.filter(project=project, user=member.user, revoked_at=None).update(
            revoked_at=timezone.now()
        )
        if not Membership.objects.filter(user=member.user).exists():
            project_create_default(user=member.user)  # every user has at least one project


def invitation_list(*, user: User) -> QuerySet[Membership]:
    """The invitations to an address that is the user's for certain, newest first."""
    invitations = Membership.objects.select_related("project").filter(
        user=None, email__in=_addresses(user)
    )
    return invitations.order_by("-id")


def invitation_accept(*, user: User, member_id: str) -> Membership:
    """Become a member. Raises NotFound, Conflict for who is one already."""
    with transaction.atomic():
        member = _invitation(user, member_id)
        if Membership.objects.filter(project=member.project, user=user).exists():
            raise Conflict("You are in this project already.", hint="Decline the invitation.")
        joined = Membership.objects.filter(id=member.id, user=None).update(
            user=user, email="", created_at=timezone.now()
        )
        if joined != 1:
            raise NotFound("There is no such invitation.")
        audit_record(
            project_id=member.project_id,
            actor=user.email,
            action="invitation_accept",
            target={"member_id": member.member_id},
        )
    return Membership.objects.select_related("project", "user").get(id=member.id)


def invitation_decline(*, user: User, member_id: str) -> None:
    """Do away with an invitation. Raises NotFound."""
    with transaction.atomic():
        member = _invitation(user, member_id)
        audit_record(
            project_id=member.project_id,
            actor=user.email,
            action="invitation_decline",
            target={"member_id": member.member_id},
        )
        member.delete()


def _invitation(user: User, member_id: str) -> Membership:
    member = invitation_list(user=user).filter(member_id=member_id).first()
    if member is None:
        raise NotFound("There is no such invitation to a confirmed address of yours.")
    return member


def _addresses(user: User) -> list[str]:
    """The user's addresses that they have proved to read; where none are asked to, the one of the
    account.
    """
    if settings.ACCOUNT_EMAIL_VERIFICATION == "none":
        return [user.email.lower()]
    proved = EmailAddress.objects.filter(user=user, verified=True).values_list("email", flat=True)
    return [address.lower() for address in proved]


def _another_owner_check(member: Membership) -> None:
    if member.user is None or member.role != Role.OWNER:
        return
    others = Membership.objects.filter(project=member.project, role=Role.OWNER, user__isnull=False)
    if not others.exclude(id=member.id).exists():
        raise Conflict(
            "A project needs an owner, and this is the last one.",
            hint="Make another member one first.",
        )


def _mail_check(*, sender: User, address: str) -> None:
    """Count one mail of an invitation. Raises Forbidden for a sender without a confirmed address,
    RateLimited beyond a day's mails.
    """
    addresses = EmailAddress.objects.filter(user=sender)
    # One whom the operator made (manage.py create_user) has no address to confirm.
    if (
        settings.ACCOUNT_EMAIL_VERIFICATION != "none"
        and addresses
        and not addresses.filter(verified=True)
    ):
        raise Forbidden(
            "Only people with a confirmed address invite others.",
            hint=f"Confirm yours at {settings.PUBLIC_URL}/account.",
        )
    hashed = hashlib.sha256(address.encode()).hexdigest()
    for counted, most in (
        (f"by:{sender.pk}", MAX_SENT_A_DAY),
        (f"to:{hashed}", MAX_RECEIVED_A_DAY),
    ):
        if counted_today(f"invitations:{counted}") > most:
            raise RateLimited(
                "No more invitations can be mailed today, by this person or to this address.",
                hint="Try again tomorrow.",
                details={"limit": most, "retry_after_s": round(DAY_S - time.time() % DAY_S)},
            )


def _mail_send(*, sender: User, address: str) -> None:
    """Send an invitation. Raises OSError, SMTPException when the mail server does not take it.

    A project's name is not in it: who names a project could otherwise have this server mail a link
    of their own.
    """
    send_mail(
        subject="You are invited to a project",
        message=f"{sender.email} invites you to a project on {settings.PUBLIC_URL}.\n\n"
        f"Sign in, or sign up with this address, and accept it at {settings.PUBLIC_URL}/account.\n",
        from_email=None,
        recipient_list=[address],
    )


def counted_today(what: str) -> int:
    """Count one more of ``what``; how many there are on this day."""
    key = f"{what}:{time.time() // DAY_S:.0f}"
    cache.add(key, 0, timeout=DAY_S)
    return cache.incr(key)
