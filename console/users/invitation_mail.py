"""The mail of an invitation: who may have one sent, how many a day, and its words.

A project's name is not among them: who names a project could otherwise have this server mail a link
of their own.
"""

import hashlib
import time

from allauth.account.models import EmailAddress
from django.conf import settings
from django.core.cache import cache
from django.core.mail import send_mail

from console.errors import Forbidden, RateLimited
from console.users.models import User

DAY_S = 86_400
MAX_SENT_A_DAY = 50  # by one person
MAX_RECEIVED_A_DAY = 5  # by one address, of all projects


def invitation_mail_check(*, sender: User, address: str) -> None:
    """Count one mail. Raises Forbidden for a sender without a confirmed address, RateLimited beyond
    a day's mails.
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
        _count(counted, most)


def invitation_mail_send(*, sender: User, address: str) -> None:
    """Send it. Raises OSError, SMTPException when the mail server does not take it."""
    send_mail(
        subject="You are invited to a project",
        message=f"{sender.email} invites you to a project on {settings.PUBLIC_URL}.\n\n"
        f"Sign in, or sign up with this address, and accept it at {settings.PUBLIC_URL}/account.\n",
        from_email=None,
        recipient_list=[address],
    )


def _count(counted: str, most: int) -> None:
    day, passed_s = divmod(time.time(), DAY_S)
    key = f"invitations:{counted}:{day:.0f}"
    cache.add(key, 0, timeout=DAY_S)
    if cache.incr(key) > most:
        left_s = round(DAY_S - passed_s)
        raise RateLimited(
            "No more invitations can be mailed today, by this person or to this address.",
            hint="Try again tomorrow.",
            details={"limit": most, "retry_after_s": left_s},
        )
