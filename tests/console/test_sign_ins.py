"""Sign-ins are in the audit log of whom they concern, and in no one else's."""

import json
import time
from datetime import timedelta

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.audit.models import AuditRecord
from console.users import sign_ins
from console.users.models import Membership, Project, User
from support import factories
from support.signing_in import NEW, OTHER_PASSWORD, ask, is_in, key_in, sign_in, signed_in
from tinkerscript.wire.account import Role


def entries(log: str) -> list[dict]:
    """What was written into a log since it began, oldest first."""
    rows = AuditRecord.objects.filter(project_id=log).order_by("number")
    return [
        entry for row in rows if (entry := json.loads(row.content))["action"] != "project_create"
    ]


def actions(log: str) -> list[str]:
    return [entry["action"] for entry in entries(log)]


@pytest.fixture(autouse=True)
def intact(db):
    """Whatever a test did, the chain holds."""
    yield
    call_command("verify_audit")


def test_coming_and_going_is_recorded_with_who_from_where_and_by_which_request(
    project, alice
) -> None:
    client = Client(REMOTE_ADDR="198.51.100.7", headers={"User-Agent": "Browser/1 " + "x" * 500})
    ask(
        client,
        "POST",
        "auth/login",
        {"email": alice.email, "password": factories.PASSWORD},
        HTTP_X_REQUEST_ID="mine",
    )
    assert ask(client, "DELETE", "auth/session").status_code == 401  # out
    came, went = entries(project.id)
    assert (came["action"], went["action"]) == ("sign_in", "sign_out")
    assert (came["actor"], came["target"], came["request_id"]) == (
        alice.email,
        {"email": alice.email},
        "mine",
    )
    assert came["details"]["address"] == "198.51.100.7"
    assert came["details"]["agent"].startswith("Browser/1") and len(came["details"]["agent"]) == 200


def test_a_wrong_password_is_recorded_where_its_account_is_and_claims_no_actor(
    project, alice
) -> None:
    assert sign_in(Client(), alice, "wrong and secret").status_code == 400
    (entry,) = entries(project.id)
    assert (entry["action"], entry["actor"]) == ("sign_in_refuse", "somebody")
    assert entry["target"] == {"email": alice.email}
    assert "wrong and secret" not in json.dumps(entry)
    assert entries(sign_ins.UNKNOWN_ACCOUNT_LOG) == []


def test_a_try_at_an_unknown_address_gets_the_same_answer_and_as_much_is_written(
    project, alice
) -> None:
    def tried(email: str) -> tuple[int, dict, int]:
        with CaptureQueriesContext(connection) as asked:
            answer = ask(Client(), "POST", "auth/login", {"email": email, "password": "wrong"})
        return (
            answer.status_code,
            answer.json(),
            sum(q["sql"].startswith(("INSERT", "UPDATE")) for q in asked),
        )

    tried("hunter2@example.com")  # both logs have begun
    assert tried("hunter2@example.com") == tried(alice.email)
    assert {entry["action"] for entry in entries(sign_ins.UNKNOWN_ACCOUNT_LOG)} == {
        "sign_in_refuse"
    }
    # it may be a password
    assert "hunter2" not in json.dumps(entries(sign_ins.UNKNOWN_ACCOUNT_LOG))


def test_tries_beyond_the_limit_write_nothing_more(project, alice) -> None:
    for _ in range(12):
        sign_in(Client(), alice, "wrong")
    assert actions(project.id) == ["sign_in_refuse"] * 5


def test_signing_up_is_a_sign_in_of_the_new_project(db) -> None:
    assert ask(Client(), "POST", "auth/signup", NEW).status_code == 200
    assert actions(Project.objects.get().id) == ["sign_in"]


def test_changing_and_resetting_a_password_is_recorded_without_it(project, alice) -> None:
    client = signed_in(alice)
    change = {"current_password": factories.PASSWORD, "new_password": OTHER_PASSWORD}
    assert ask(client, "POST", "account/password/change", change).status_code == 200
    ask(Client(), "POST", "auth/password/request", {"email": alice.email})
    reset = {"key": key_in(mail.outbox[-1], "reset-password"), "password": "a third passphrase"}
    ask(Client(), "POST", "auth/password/reset", reset)
    assert actions(project.id) == ["sign_in", "password_change", "password_reset"]
    assert not any(
        secret in json.dumps(entries(project.id))
        for secret in (OTHER_PASSWORD, "third", reset["key"])
    )


@pytest.mark.django_db(transaction=True)  # allauth tells of a second factor at the commit
def test_second_factors_are_recorded_when_they_come_fail_and_go(project, alice, settings) -> None:
    settings.MFA_ALLOW_UNVERIFIED_EMAIL = True
    client = signed_in(alice)
    secret = ask(client, "GET", "account/authenticators/totp").json()["meta"]["secret"]
    ask(client, "POST", "auth/reauthenticate", {"password": factories.PASSWORD})
    code = format_hotp_value(hotp_value(secret, int(time.time()) // 30))
    assert ask(client, "POST", "account/authenticators/totp", {"code": code}).status_code == 200
    half = Client()
    sign_in(half, alice)
    ask(half, "POST", "auth/2fa/authenticate", {"code": "000000"})
    assert not is_in(half)
    assert ask(client, "DELETE", "account/authenticators/totp").status_code == 200
    written = [(entry["action"], entry["details"].get("kind")) for entry in entries(project.id)]
    assert written == [
        ("sign_in", None),
        ("second_factor_add", "totp"),
        ("second_factor_add", "recovery_codes"),
        ("second_factor_refuse", None),  # and no sign_in: the password alone is none
        ("second_factor_remove", "totp"),
        ("second_factor_remove", "recovery_codes"),
    ]
    assert secret not in json.dumps(entries(project.id))


def test_ending_other_browsers_sign_ins_is_recorded(project, alice) -> None:
    here, _ = signed_in(alice), signed_in(alice)
    everywhere = [entry["id"] for entry in ask(here, "GET", "auth/sessions").json()["data"]]
    ask(here, "DELETE", "auth/sessions", {"sessions": everywhere})
    assert actions(project.id) == ["sign_in", "sign_in", "sign_out_elsewhere", "sign_out"]
    assert entries(project.id)[2]["details"]["sign_ins"] == 1


def test_no_other_project_hears_of_it_not_even_one_that_the_person_works_in(
    project, alice, member, bob
) -> None:
    own = Project.objects.get(memberships__user=member, memberships__role=Role.OWNER)
    began = Membership.objects.get(user=member, project=own).created_at - timedelta(days=1)
    # in it before there was their own
    Membership.objects.filter(user=member, project=project).update(created_at=began)
    sign_in(signed_in(member), member, "wrong")
    assert actions(own.id) == ["sign_in", "sign_in_refuse"]
    assert entries(project.id) == []
    reader = Client()
    reader.force_login(bob)
    for log in (own.id, sign_ins.UNKNOWN_ACCOUNT_LOG, f"user:{member.pk}"):
        assert reader.get("/v1/audit", headers={"X-Project-Id": log}).status_code == 404
    assert member.email not in reader.get("/v1/audit").content.decode()


def test_the_console_shows_them_to_the_owner_of_the_project(project, alice) -> None:
    client = signed_in(alice)
    shown = client.get("/v1/audit").json()["items"]
    assert [entry["action"] for entry in shown] == ["sign_in", "project_create"]


def shown(client: Client) -> list[tuple[str, str]]:
    """What the person sees of their own sign-ins."""
    return [
        (entry["action"], entry["address"])
        for entry in client.get("/v1/account/sign-ins").json()["items"]
    ]


def test_a_person_sees_their_own_sign_ins_and_no_one_elses(project, alice, member, bob) -> None:
    # and reads the project's log with it
    Membership.objects.create(user=bob, project=project, role=Role.OWNER)
    client = signed_in(alice)
    sign_in(Client(REMOTE_ADDR="198.51.100.7"), alice, "wrong")
    for other in (member, bob):
        sign_in(Client(), other)
    assert shown(client) == [("sign_in_refuse", "198.51.100.7"), ("sign_in", "127.0.0.1")]
    assert [action for action, _ in shown(signed_in(bob))] == ["sign_in", "sign_in"]
    assert len(client.get("/v1/account/sign-ins?limit=1").json()["items"]) == 1
    assert client.get("/v1/account/sign-ins?limit=0").status_code == 400
    assert Client().get("/v1/account/sign-ins").status_code == 401


def test_who_owns_no_project_sees_the_log_of_their_own_too(project, db) -> None:
    user = User.objects.create_user(
        username="u_1", email="u_1@example.com", password=factories.PASSWORD
    )
    like = User.objects.create_user(
        username="uX1", email="ux1@example.com", password=factories.PASSWORD
    )
    signed_in(like)
    client = signed_in(user)
    Membership.objects.create(user=user, project=project, role=Role.VIEWER)
    assert shown(client) == [("sign_in", "127.0.0.1")]
    Membership.objects.create(
        user=user, project=Project.objects.create(name="theirs"), role=Role.OWNER
    )
    signed_in(user)
    assert shown(client) == [("sign_in", "127.0.0.1")] * 2


def test_who_owns_no_project_has_a_log_of_their_own(db) -> None:
    user = User.objects.create_user(
        username="u", email="u@example.com", password=factories.PASSWORD
    )
    signed_in(user)
    assert actions(f"user:{user.pk}") == ["sign_in"]
    Membership.objects.create(
        user=user, project=Project.objects.create(name="theirs"), role=Role.OWNER
    )
    signed_in(user)
    assert actions(f"user:{user.pk}") == ["sign_in"]


def test_no_one_comes_in_unrecorded(project, alice, monkeypatch) -> None:
    def full(**_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(sign_ins, "audit_record", full)
    client = Client(raise_request_exception=False)
    assert sign_in(client, alice).status_code == 500
    assert not is_in(client)


def test_an_altered_sign_in_is_found(project, alice) -> None:
    signed_in(alice)
    with connection.cursor() as cursor:
        drop = "DROP TRIGGER audit_append_only"
        cursor.execute(drop if connection.vendor == "sqlite" else f"{drop} ON console_auditrecord")
        cursor.execute(
            "UPDATE console_auditrecord SET content = replace(content, 'sign_in', 'sign_up')"
        )
    with pytest.raises(CommandError, match="was altered"):
        call_command("verify_audit")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE console_auditrecord SET content = replace(content, 'sign_up', 'sign_in')"
        )
