"""Mails of alerts: one of what is new of a run, to a confirmed address of somebody who is of the
project still.
"""

from allauth.account.models import EmailAddress
from django.db import connection
from django.utils import timezone

from console.sessions.alerts import mail as alert_mail
from console.sessions.alerts.mail import alerts_mail
from console.sessions.models import Alert
from console.sessions.raised_alerts import alert_raise
from console.users.models import Membership
from support import factories
from tinkerscript.wire.reading.alerts import AlertRule


def test_who_started_a_run_has_one_mail_of_what_is_new_and_few_a_day(
    project, alice, mailoutbox, monkeypatch
) -> None:
    monkeypatch.setattr(alert_mail, "MAX_A_DAY", 2)
    session = factories.session_make(project, person=alice, name="Subject: spam\r\n")
    for subject in ("1", "2"):
        alert_raise(session=session, rule=AlertRule.STUCK, subject=subject, text=f"stuck {subject}")
    alerts_mail()
    alerts_mail()
    (mail,) = mailoutbox
    assert mail.to == [alice.email] and "spam" not in mail.subject + mail.body
    assert "- stuck 1\n  Its runtime" in mail.body and "- stuck 2\n  Its runtime" in mail.body
    assert f"/projects/{project.id}/sessions/{session.id}\n" in mail.body
    for subject in ("3", "4"):
        alert_raise(session=session, rule=AlertRule.STUCK, subject=subject, text="again")
        alerts_mail()
    assert len(mailoutbox) == 2
    assert not Alert.objects.filter(mailed_at=None).exists()


def test_who_left_the_project_has_no_mail(project, alice, mailoutbox) -> None:
    session = factories.session_make(project, person=alice)
    Membership.objects.filter(user=alice).delete()
    alert_raise(session=session, rule=AlertRule.STUCK, text="stuck")
    alerts_mail()
    assert mailoutbox == []


def test_an_address_that_is_not_confirmed_has_no_mail_though_another_of_the_person_is(
    project, alice, mailoutbox, settings
) -> None:
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    session = factories.session_make(project, person=alice)
    address, _is_new = EmailAddress.objects.update_or_create(
        user=alice, email=alice.email, defaults={"primary": True, "verified": False}
    )
    EmailAddress.objects.create(user=alice, email="other@example.com", verified=True)
    alert_raise(session=session, rule=AlertRule.STUCK, text="stuck", subject="1")
    alerts_mail()
    assert mailoutbox == []
    EmailAddress.objects.filter(id=address.id).update(verified=True)
    alert_raise(session=session, rule=AlertRule.STUCK, text="stuck", subject="2")
    alerts_mail()
    assert [mail.to for mail in mailoutbox] == [[alice.email]]


def test_what_another_process_takes_meanwhile_is_its_own_and_the_rest_is_sent(
    project, alice, mailoutbox
) -> None:
    session = factories.session_make(project, person=alice)
    for subject in ("1", "2"):
        alert_raise(session=session, rule=AlertRule.STUCK, subject=subject, text=f"stuck {subject}")
    taken = []

    def other_process(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and "mailed_at" in sql and not taken:
            taken.append(sql)
            Alert.objects.filter(subject="1").update(mailed_at=timezone.now())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(other_process):
        alerts_mail()
    (mail,) = mailoutbox
    assert "stuck 2" in mail.body and "stuck 1" not in mail.body
