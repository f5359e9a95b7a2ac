"""Accounts, as the console's pages use them: django-allauth's JSON endpoints, one promise a
test.
"""

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.contrib.auth.hashers import identify_hasher, make_password
from django.core import mail
from django.test import Client

from console import settings as server_settings
from console.audit.models import AuditRecord
from console.users.models import User
from console.users.selectors import project_get
from support import factories
from support.signing_in import NEW, OTHER_PASSWORD, ask, is_in, key_in, sign_in, signed_in


def pending(answer) -> list[str]:
    return [flow["id"] for flow in answer.json()["data"]["flows"] if flow.get("is_pending")]


# -- Sign-up and the address ------------------------------------------------------------------------------------------


def test_passwords_are_kept_by_argon2() -> None:
    hashers = server_settings.PASSWORD_HASHERS
    assert (
        identify_hasher(make_password("x", hasher=identify_hasher(make_password("x")).algorithm))
        is not None
    )
    assert hashers == ["django.contrib.auth.hashers.Argon2PasswordHasher"]


@pytest.mark.parametrize("password", ["short", "password123", ""])
def test_a_weak_password_is_refused_at_its_field(password, db) -> None:
    answer = ask(Client(), "POST", "auth/signup", NEW | {"password": password})
    assert answer.status_code == 400
    assert {error["param"] for error in answer.json()["errors"]} == {"password"}
    assert not User.objects.exists()


def test_the_mailed_link_confirms_the_address(db) -> None:
    client = Client()
    assert ask(client, "POST", "auth/signup", NEW).status_code == 200
    assert [entry["verified"] for entry in ask(client, "GET", "account/email").json()["data"]] == [
        False
    ]
    (message,) = mail.outbox
    assert message.to == [NEW["email"]]
    key = key_in(message, "verify-email")
    assert ask(Client(), "POST", "auth/email/verify", {"key": key + "x"}).status_code == 400
    assert ask(client, "POST", "auth/email/verify", {"key": key}).status_code == 200
    assert [entry["verified"] for entry in ask(client, "GET", "account/email").json()["data"]] == [
        True
    ]


def test_where_confirming_is_mandatory_no_one_is_in_before(db, settings) -> None:
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    client = Client()
    answer = ask(client, "POST", "auth/signup", NEW)
    assert (answer.status_code, pending(answer)) == (401, ["verify_email"])
    assert not is_in(client)
    ask(client, "POST", "auth/email/verify", {"key": key_in(mail.outbox[0], "verify-email")})
    again = Client()
    assert ask(again, "POST", "auth/login", NEW).status_code == 200
    assert is_in(again)


def test_mails_name_the_server_and_not_the_host_that_was_asked(db) -> None:
    ask(Client(), "POST", "auth/signup", NEW, headers={"Host": "evil.example"})
    assert "evil.example" not in mail.outbox[0].body + mail.outbox[0].subject


# -- Passwords --------------------------------------------------------------------------------------------------------


def test_the_mailed_link_sets_a_new_password_once_and_ends_every_session(alice) -> None:
    elsewhere = signed_in(alice)
    stranger = Client()
    assert ask(stranger, "POST", "auth/password/request", {"email": alice.email}).status_code == 200
    key = key_in(mail.outbox[0], "reset-password")
    reset = ask(stranger, "POST", "auth/password/reset", {"key": key, "password": OTHER_PASSWORD})
    assert reset.status_code == 401  # done, and a reader of the mail still has to sign in
    assert not is_in(stranger) and not is_in(elsewhere)
    assert (
        ask(
            Client(), "POST", "auth/password/reset", {"key": key, "password": "third passphrase"}
        ).status_code
        == 400
    )
    assert sign_in(Client(), alice).status_code == 400
    assert sign_in(Client(), alice, OTHER_PASSWORD).status_code == 200


@pytest.mark.parametrize("end_keys", [True, False])
def test_who_sets_a_new_password_by_mail_may_end_their_keys(
    end_keys: bool, project, alice, bob, client_for
) -> None:
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    key, others = factories.key_make(project, alice), factories.key_make(project_get(user=bob), bob)
    ask(Client(), "POST", "auth/password/request", {"email": alice.email})
    reset = {"key": key_in(mail.outbox[0], "reset-password"), "password": OTHER_PASSWORD}
    ask(Client(), "POST", "auth/password/reset", reset | {"key": "1-wrong", "end_keys": True})
    assert client_for(key).get("/v1/account").status_code == 200
    ask(Client(), "POST", "auth/password/reset", reset | ({"end_keys": True} if end_keys else {}))
    assert client_for(key).get("/v1/account").status_code == (401 if end_keys else 200)
    assert client_for(others).get("/v1/account").status_code == 200
    assert (
        AuditRecord.objects.filter(content__contains="the keys ended with it").count() == end_keys
    )


def test_asking_for_a_reset_does_not_reveal_whether_there_is_an_account(alice) -> None:
    answers = [
        ask(Client(), "POST", "auth/password/request", {"email": email})
        for email in (alice.email, "no@example.com")
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert "reset-password/" not in mail.outbox[1].body


def test_changing_the_password_needs_the_old_one_and_ends_the_other_sessions(alice) -> None:
    here, elsewhere = signed_in(alice), signed_in(alice)
    body = {"current_password": "wrong", "new_password": OTHER_PASSWORD}
    assert ask(here, "POST", "account/password/change", body).status_code == 400
    body["current_password"] = factories.PASSWORD
    assert ask(here, "POST", "account/password/change", body).status_code == 200
    assert is_in(here) and not is_in(elsewhere)
    assert any("password" in message.body for message in mail.outbox)  # its owner gets a mail


# -- Guessing ---------------------------------------------------------------------------------------------------------


def test_an_account_is_locked_after_five_wrong_passwords_even_for_the_right_one(alice, bob) -> None:
    for attempt in range(5):
        client = Client(REMOTE_ADDR=f"198.51.100.{attempt}")  # from everywhere
        assert sign_in(client, alice, "wrong").status_code == 400
    locked = sign_in(Client(REMOTE_ADDR="198.51.100.9"), alice)
    assert locked.status_code in (400, 429)
    assert "too many" in str(locked.json()).lower() or locked.status_code == 429
    assert sign_in(Client(REMOTE_ADDR="198.51.100.9"), bob).status_code == 200  # no one else is


def test_a_stranger_cannot_lock_a_person_out(alice) -> None:
    home = "203.0.113.7"
    assert sign_in(Client(REMOTE_ADDR=home), alice).status_code == 200
    for attempt in range(60):  # from ten networks, until even the account's own limit is used up
        sign_in(Client(REMOTE_ADDR=f"198.51.{attempt % 10}.{attempt}"), alice, "wrong")
    assert "too many" in str(sign_in(Client(REMOTE_ADDR="198.51.77.1"), alice).json()).lower(), (
        "guessing has an end"
    )
    assert sign_in(Client(REMOTE_ADDR="203.0.113.99"), alice).status_code == 200, (
        "their own network is let in"
    )


def test_addresses_of_ipv4_that_are_written_as_ipv6_are_no_one_network(alice, bob) -> None:
    for attempt in range(11):
        sign_in(Client(REMOTE_ADDR=f"::ffff:198.51.100.{attempt}"), alice, "wrong")
    assert sign_in(Client(REMOTE_ADDR="::ffff:203.0.113.7"), alice).status_code == 200
    assert sign_in(Client(REMOTE_ADDR="203.0.113.8"), alice).status_code == 200, (
        "the same network as before"
    )


def test_one_machine_gets_ten_wrong_guesses_a_minute_over_all_accounts(db) -> None:
    def guess(number: int) -> int:
        body = {"email": f"user{number}@example.com", "password": "wrong"}
        return ask(Client(REMOTE_ADDR="198.51.100.1"), "POST", "auth/login", body)

    errors = [guess(number) for number in range(11)]
    assert "too many" in str(errors[-1].json()).lower()
    assert "too many" not in str(errors[-2].json()).lower()


def test_a_forged_forwarding_header_is_not_another_machine(db) -> None:
    for number in range(11):
        body = {"email": f"user{number}@example.com", "password": "wrong"}
        headers = {"X-Forwarded-For": f"203.0.113.{number}"}
        answer = ask(
            Client(REMOTE_ADDR="198.51.100.1"), "POST", "auth/login", body, headers=headers
        )
    assert "too many" in str(answer.json()).lower()


@pytest.mark.system
def test_signing_up_and_resetting_are_limited_too(db) -> None:
    for path, body in [
        ("auth/signup", NEW | {"password": "x"}),
        ("auth/password/request", {"email": "a@example.com"}),
    ]:
        statuses = [ask(Client(), "POST", path, body).status_code for _ in range(21)]
        assert 429 in statuses, path


@pytest.fixture
def passing(monkeypatch) -> Callable[[float], None]:
    """Lets so many seconds pass for the limits."""
    now = [time.time()]
    clock = SimpleNamespace(time=lambda: now[0], monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr("allauth.core.internal.ratelimit.time", clock)

    def passed(seconds: float) -> None:
        now[0] += seconds

    return passed


@pytest.mark.parametrize("path", ["auth/password/request", "auth/signup"])
def test_strangers_have_twenty_mails_a_day_sent_to_one_address(
    path, alice, settings, passing
) -> None:
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    for _ in range(25):
        ask(Client(), "POST", path, NEW | {"email": alice.email.upper()})
        passing(200)
    assert [message.to for message in mail.outbox] == [[mail.outbox[0].to[0]]] * 20
    passing(86_400)
    ask(Client(), "POST", path, NEW | {"email": alice.email})
    assert len(mail.outbox) == 21


def test_a_person_has_fifty_mails_a_day_sent_to_addresses_that_they_add(alice, passing) -> None:
    client = signed_in(alice)
    statuses = []
    for number in range(52):
        statuses.append(
            ask(
                client, "POST", "account/email", {"email": f"someone{number}@example.com"}
            ).status_code
        )
        passing(20)
    assert statuses == [200] * 50 + [429] * 2
    assert len({message.to[0] for message in mail.outbox}) == len(mail.outbox) == 50


# -- The second factor ------------------------------------------------------------------------------------------------


def code(secret: str, later: int = 0) -> str:
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + later))


@pytest.fixture
def enrolled(alice, settings) -> tuple[Client, str, list[str]]:
    """Alice's browser, the secret in her telephone, and her recovery codes."""
    settings.MFA_ALLOW_UNVERIFIED_EMAIL = True
    client = signed_in(alice)
    asked = ask(client, "GET", "account/authenticators/totp")
    assert asked.status_code == 404
    secret = asked.json()["meta"]["secret"]
    assert asked.json()["meta"]["totp_url"].startswith("otpauth://totp/")
    activate = {"code": code(secret)}
    first = ask(client, "POST", "account/authenticators/totp", activate)
    assert first.status_code == 401  # not without the password
    assert (
        ask(client, "POST", "auth/reauthenticate", {"password": factories.PASSWORD}).status_code
        == 200
    )
    assert ask(client, "POST", "account/authenticators/totp", activate).status_code == 200
    codes = ask(client, "GET", "account/authenticators/recovery-codes").json()["data"][
        "unused_codes"
    ]
    return client, secret, codes


def test_a_password_alone_is_not_enough_any_more(enrolled, alice) -> None:
    _, secret, _ = enrolled
    client = Client()
    answer = sign_in(client, alice)
    assert (answer.status_code, pending(answer)) == (401, ["mfa_authenticate"])
    assert not is_in(client)
    assert ask(client, "POST", "auth/2fa/authenticate", {"code": "000000"}).status_code == 400
    assert (
        ask(client, "POST", "auth/2fa/authenticate", {"code": code(secret, later=1)}).status_code
        == 200
    )
    assert is_in(client)


def test_a_code_is_good_once(enrolled, alice) -> None:
    _, secret, _ = enrolled
    once = code(secret, later=1)
    for expected in (200, 400):
        client = Client()
        sign_in(client, alice)
        assert ask(client, "POST", "auth/2fa/authenticate", {"code": once}).status_code == expected


def test_a_recovery_code_stands_in_once(enrolled, alice) -> None:
    *_, codes = enrolled
    assert len(codes) == 10
    for expected in (200, 400):
        client = Client()
        sign_in(client, alice)
        assert (
            ask(client, "POST", "auth/2fa/authenticate", {"code": codes[0]}).status_code == expected
        )


def test_codes_cannot_be_guessed_for_long(enrolled, alice) -> None:
    client = Client()
    sign_in(client, alice)
    answers = [ask(client, "POST", "auth/2fa/authenticate", {"code": f"{n:06}"}) for n in range(8)]
    assert answers[-1].status_code == 429 or "too many" in str(answers[-1].json()).lower()


def test_a_reset_password_does_not_get_round_it(enrolled, alice) -> None:
    ask(Client(), "POST", "auth/password/request", {"email": alice.email})
    key = key_in(mail.outbox[-1], "reset-password")
    client = Client()
    ask(client, "POST", "auth/password/reset", {"key": key, "password": OTHER_PASSWORD})
    assert pending(sign_in(client, alice, OTHER_PASSWORD)) == ["mfa_authenticate"]
    assert not is_in(client)


def test_its_secret_is_not_readable_in_the_database(enrolled) -> None:
    _, secret, codes = enrolled
    kept = str(list(Authenticator.objects.values()))
    assert secret not in kept
    assert not [word for word in codes if word in kept]


def test_it_is_ended_by_who_proves_the_password_again_alone(enrolled, alice, settings) -> None:
    client, _, _ = enrolled
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 0
    assert ask(client, "DELETE", "account/authenticators/totp").status_code == 401
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
    assert ask(client, "DELETE", "account/authenticators/totp").status_code == 200
    assert sign_in(Client(), alice).status_code == 200


def test_who_has_not_confirmed_the_address_cannot_lock_its_owner_out(db) -> None:
    client = Client()
    ask(client, "POST", "auth/signup", NEW)
    assert ask(client, "GET", "account/authenticators/totp").status_code == 409


# -- Sessions of the browser ------------------------------------------------------------------------------------------


def test_the_list_of_sessions_shows_ones_own_alone(alice, bob) -> None:
    here = signed_in(alice)
    signed_in(alice), signed_in(bob)
    listed = ask(here, "GET", "auth/sessions").json()["data"]
    assert len(listed) == 2
    assert [entry["is_current"] for entry in listed].count(True) == 1


def test_signing_out_everywhere_ends_every_session(alice) -> None:
    here, elsewhere = signed_in(alice), signed_in(alice)
    everywhere = [entry["id"] for entry in ask(here, "GET", "auth/sessions").json()["data"]]
    assert ask(here, "DELETE", "auth/sessions", {"sessions": everywhere}).status_code == 401
    assert not is_in(here) and not is_in(elsewhere)


def test_no_one_ends_another_persons_session(alice, bob) -> None:
    hers, his = signed_in(alice), signed_in(bob)
    (target,) = [entry["id"] for entry in ask(hers, "GET", "auth/sessions").json()["data"]]
    assert ask(his, "DELETE", "auth/sessions", {"sessions": [target]}).status_code == 400
    assert is_in(hers)


def test_the_admin_has_no_sign_in_of_its_own(alice) -> None:
    assert Client().get("/admin/", follow=True).redirect_chain[-1][0] == "/signin?next=%2Fadmin%2F"
    assert signed_in(alice).get("/admin/login/").status_code == 403
    answer = Client().post(
        "/admin/login/", {"username": alice.username, "password": factories.PASSWORD}
    )
    assert answer.status_code == 302
    assert "sessionid" not in answer.cookies
