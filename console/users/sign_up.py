"""Which addresses are taken, whether one may sign up, and what ends when an address is first shown
to be its owner's.

Someone may have made the account with an address that is not theirs, which its owner cannot confirm
for them (console.users.mailed_links). Once its owner sets a password by a mailed link, what was
made before may be an attacker's: keys, other sign-ins and other addresses end.
"""

from typing import Any

from allauth.account import signals
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail.message import sanitize_address
from django.core.validators import validate_email
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone

from console.audit.services import audit_record
from console.users.models import EMAIL_MAX_LENGTH, ApiKey, Membership, User

REFUSALS = {
    "closed": "This server takes no sign-ups. Ask its operator for an account.",
    "invited": "This server takes people by invitation: ask a member to invite this address to "
    "their project.",
    "domains": "This server takes addresses of certain domains alone. Ask its operator.",
}


def address_check(address: str) -> None:
    """Whether this server takes an address: one that is written as mail servers read it. Raises
    ValidationError, in words for who typed it.

    Django decodes and quotes anew what it hands to a mail server. Text that it takes for an address
    may stand for another mailbox there (``=?utf-8?q?bob?=@example.org`` is mailed to
    bob@example.org), so that one mailbox has addresses without end, each with limits of its own; or
    it stands for none, and sending fails.
    """
    validate_email(address)
    if len(address) > EMAIL_MAX_LENGTH:
        raise ValidationError(f"An address has at most {EMAIL_MAX_LENGTH} characters.")
    name, _, domain = address.rpartition("@")
    if domain.startswith("["):
        raise ValidationError("An address ends in a domain's name, not in a number.")
    try:
        mailed_name, _, mailed_domain = sanitize_address(address, "utf-8").rpartition("@")
        spellings = mailed_domain.lower(), mailed_domain.lower().encode().decode("idna")
        is_as_mailed = mailed_name == name and domain.lower() in spellings
    except ValueError:  # UnicodeError is one
        is_as_mailed = False
    if not is_as_mailed:
        raise ValidationError(
            "Write the address as it is mailed to: no quotes, no encoded words, letters of ASCII "
            "before the @."
        )


def sign_up_refusal(email: str) -> str | None:
    """Why this address may not sign up, in words for its owner; None: it may."""
    policy = settings.SIGN_UP.policy
    address = email.lower()
    allowed = {
        "closed": lambda: False,
        "invited": lambda: Membership.objects.filter(user=None, email=address).exists(),
        "domains": lambda: address.rpartition("@")[2] in settings.SIGN_UP.domains,
        "open": lambda: True,
    }[policy]()
    return None if allowed else REFUSALS[policy]


@receiver(signals.email_confirmed)
def address_confirmed(request: HttpRequest, email_address: EmailAddress, **_: Any) -> None:
    """End earlier access where somebody else than the account's maker, an operator, says whose the
    address is.
    """
    user = email_address.user
    others = EmailAddress.objects.filter(user=user).exclude(pk=email_address.pk)
    is_own = email_address.email == user.email
    # Another that its maker added and confirmed shows nothing about the account's own address.
    if getattr(request, "is_of_maker", False) or (
        not is_own and others.filter(verified=True).exists()
    ):
        return
    with transaction.atomic():
        if is_own:
            others.delete()  # a password would be mailed to them
        access_end(user=user, reason="the address was confirmed for the first time")


@receiver(signals.password_reset)
def password_reset(request: HttpRequest, user: User, **_: Any) -> None:
    """Who sets a password by a mailed link reads the mail: that confirms the address too, if the
    account has no other that the link may have gone to.
    """
    addresses = EmailAddress.objects.filter(user=user, email=user.email.lower())
    if not addresses.exists() or addresses.filter(verified=True).exists():
        return
    if not EmailAddress.objects.filter(user=user).exclude(email=user.email.lower()).exists():
        addresses.update(verified=True)
    access_end(
        user=user, reason="a password was set by a mailed link before the address was confirmed"
    )


def address_prove(*, email: str, user: User | None) -> None:
    """The identity provider says that the person who signs in has this address, in lower case;
    ``user``: whose account has it. Letters are compared as they are: PostgreSQL takes ı for i where
    it ignores case, and so one mailbox for another.

    Who else only claims it does not keep it. At the first time that anyone shows to be the owner,
    what was made before ends: also the password, other addresses, to which a password would be
    mailed, and second factors, which the owner does not have.
    """
    with transaction.atomic():
        EmailAddress.objects.filter(email=email, verified=False).exclude(user=user).delete()
        if (
            user is None
            or EmailAddress.objects.filter(user=user, email=email, verified=True).exists()
        ):
            return
        user.set_unusable_password()
        user.save(update_fields=["password"])
        EmailAddress.objects.filter(user=user).exclude(email=email).delete()
        Authenticator.objects.filter(user=user).delete()
        EmailAddress.objects.update_or_create(
            user=user, email=email, defaults={"verified": True, "primary": True}
        )
        access_end(user=user, reason="the address was confirmed by the identity provider")


def access_end(*, user: User, reason: str) -> int:
    """Revoke every key of a person, recorded in its project, and end their sign-ins and their links
    to an identity provider; returns the number of keys.
    """
    with transaction.atomic():
        ended = keys_end(user=user, reason=reason)
        SocialAccount.objects.filter(user=user).delete()
        for session in UserSession.objects.filter(user=user):
            session.end()
    return ended


def keys_end(*, user: User, reason: str) -> int:
    """Revoke every key of a person, recorded in its project; returns the number of keys."""
    with transaction.atomic():
        keys = list(ApiKey.objects.select_for_update().filter(user=user, revoked_at=None))
        for key in keys:
            audit_record(
                project_id=key.project_id,
                actor=user.email,
                action="key_revoke",
                target={"key_id": key.id},
                details={"reason": reason},
            )
        ApiKey.objects.filter(id__in=[key.id for key in keys]).update(revoked_at=timezone.now())
    return len(keys)
