"""Mails of alerts: to who started the run, or else to the project's owners, one for all that is new
of it.

An alert is marked before its mail is sent: a mail server that fails half-way makes one too few,
never one a second.
"""

from datetime import timedelta

from allauth.account.models import EmailAddress
from django.conf import settings
from django.core.mail import send_mail
from django.utils import timezone

from console.sessions.models import Alert, Session
from console.users.members import counted_today
from console.users.models import Membership, User
from tinkerscript.wire.account import Role

MAX_A_DAY = 20  # to one person
OLDEST = timedelta(hours=1)  # what an outage of the mail server held back longer is no news


def alerts_mail() -> None:
    """Send what is new. Raises OSError, SMTPException when the mail server does not take it."""
    new = Alert.objects.filter(mailed_at=None, at__gt=timezone.now() - OLDEST)
    for session_id in list(new.order_by().values_list("session_id", flat=True).distinct()):
        alerts = [
            alert for alert in new.filter(session_id=session_id).order_by("id") if _is_taken(alert)
        ]
        if not alerts:
            continue
        session = Session.objects.select_related("person").get(id=session_id)
        for person in _readers(session):
            if _may_be_sent(person):
                _send(session, person, alerts)


def _readers(session: Session) -> list[User]:
    """Who started the run; the project's owners where that one is not of the project any more."""
    members = Membership.objects.filter(project=session.project_id, user__isnull=False)
    if session.person is not None and members.filter(user=session.person).exists():
        return [session.person]
    owners = members.filter(role=Role.OWNER).select_related("user").order_by("id")
    return [owner.user for owner in owners if owner.user is not None]


def _is_taken(alert: Alert) -> bool:
    """Mark the alert as mailed; false where another process has done so meanwhile."""
    return bool(Alert.objects.filter(id=alert.id, mailed_at=None).update(mailed_at=timezone.now()))


def _may_be_sent(person: User) -> bool:
    """Whether there is a mail server, and they have a proved address and mails left today."""
    if settings.EMAIL_BACKEND.endswith("console.EmailBackend"):
        return False  # no mail server: mails would be lines among those of the server
    if settings.ACCOUNT_EMAIL_VERIFICATION != "none" and not _is_proved(person):
        return False
    return counted_today(f"alert-mails:{person.pk}") <= MAX_A_DAY


def _is_proved(person: User) -> bool:
    """Whether the very address that mails go to is confirmed: another of theirs says nothing of
    it.
    """
    addresses = EmailAddress.objects.filter(user=person)
    # One whom the operator made (manage.py create_user) may have no address to confirm.
    return (
        not addresses.exists()
        or addresses.filter(email=person.email.lower(), verified=True).exists()
    )


def _send(session: Session, person: User, alerts: list[Alert]) -> None:
    # The name is a person's own words: the id alone is in the mail.
    said = "\n".join(f"- {alert.text}\n  {alert.hint}".rstrip() for alert in alerts)
    send_mail(
        subject=f"{len(alerts)} alerts of run {session.id}"
        if len(alerts) > 1
        else f"An alert of run {session.id}",
        message=f"{said}\n\n{settings.PUBLIC_URL}/projects/{session.project_id}"
        f"/sessions/{session.id}\n",
        from_email=None,
        recipient_list=[person.email],
    )
