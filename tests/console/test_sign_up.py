"""Who may make an account, and what ends once an address is shown to be another person's than its
maker's.
"""

import json
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.account.signals import email_confirmed
from django.contrib.auth.hashers import MD5PasswordHasher
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from pytest_django import Settings

from console.audit.models import AuditRecord
from console.config.sign_up import SignUp, is_loopback, sign_up_read
from console.users.models import ApiKey, Membership, Project, User
from support import factories
from support.signing_in import NEW, OTHER_PASSWORD, ask, is_in, key_in, sign_in
from tinkerscript.wire.account import Role

PUBLIC = "https://train.example.org"
LOCAL = "http://127.0.0.1:8000"


def policy(settings: Settings, name: str, *domains: str) -> None:
    settings.SIGN_UP = SignUp(name, frozenset(domains), "optional")


def sign_up(email: str = NEW["email"]) -> tuple[Client, int, str]:
    client = Client()
    answer = ask(client, "POST", "auth/signup", NEW | {"email": email})
    return client, answer.status_code, answer.content.decode()


# -- Who may -----------------------------------------------------------------------------------------------------------


def test_where_sign_up_is_closed_no_one_signs_up(db: None, settings: Settings) -> None:
    policy(settings, "closed")
    _, status, body = sign_up()
    assert status == 400 and "Ask its operator for an account" in body
    assert not User.objects.exists()


def test_only_an_invited_address_signs_up_where_it_is_by_invitation(
    project: Project, settings: Settings
) -> None:
    policy(settings, "invited")
    project.memberships.create(email=NEW["email"], role=Role.MEMBER)
    _, status, body = sign_up("stranger@example.com")
    assert status == 400 and "by invitation" in body
    assert sign_up(NEW["email"].upper())[1] == 200


def test_only_addresses_of_the_domains_sign_up(db: None, settings: Settings) -> None:
    policy(settings, "domains", "lab.example.org")
    for outside in (
        "a@example.org",
        "a@lab.example.org.evil.example",
        "lab.example.org@evil.example",
    ):
        assert sign_up(outside)[1] == 400
    assert sign_up("ada@LAB.example.org")[1] == 200


# -- Settings ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch):
    def set_(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"TINKERSCRIPT_{name}", value)

    return set_


def test_a_public_server_is_by_invitation_and_confirms_addresses_by_default() -> None:
    assert sign_up_read(PUBLIC) == SignUp("invited", frozenset(), "mandatory")
    assert sign_up_read(LOCAL) == SignUp("open", frozenset(), "optional")


def test_domains_that_may_sign_up_are_listed(variables) -> None:
    variables(SIGN_UP="Example.org, lab.example.org")
    domains = frozenset({"example.org", "lab.example.org"})
    assert sign_up_read(PUBLIC) == SignUp("domains", domains, "mandatory")


@pytest.mark.parametrize(
    "values",
    [
        {"SIGN_UP": "perhaps"},
        {"SIGN_UP": "domains"},
        {"SIGN_UP": "example.org,nodot"},
        {"SIGN_UP": "open,example.org"},
        {"SIGN_UP": ","},
        {"SIGN_UP": "open", "EMAIL_VERIFICATION": "optional"},
        {"EMAIL_VERIFICATION": "none"},
    ],
)
def test_settings_that_contradict_one_another_stop_start_up(
    variables, values: dict[str, str]
) -> None:
    variables(**values)
    with pytest.raises(ImproperlyConfigured, match="TINKERSCRIPT_"):
        sign_up_read(PUBLIC)


def test_a_closed_server_need_not_confirm_addresses(variables) -> None:
    variables(SIGN_UP="closed", EMAIL_VERIFICATION="none")
    assert sign_up_read(PUBLIC).verification == "none"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.0.1:80", "[::1]:8000", "localhost:3000", "a.localhost"]
)
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(f"http://{host}")


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "10.0.0.1", "train.example.org", "localhost.example.org", "127.0.0.1.nip.io"],
)
def test_what_others_may_reach_is_not_loopback(host: str) -> None:
    assert not is_loopback(f"http://{host}")


# -- Somebody else's address -------------------------------------------------------------------------------------------


@pytest.fixture
def squatter(db: None) -> tuple[Client, str]:
    """The browser of a person who signed up with another person's address, and the secret of their
    admin key.
    """
    client, status, _ = sign_up()
    assert status == 200 and is_in(client)
    user = User.objects.get(email=NEW["email"])
    return client, factories.key_make(Project.objects.get(memberships__user=user), user)


def works(secret: str) -> bool:
    return (
        Client(headers={"Authorization": f"Bearer {secret}"}).get("/v1/account").status_code == 200
    )


def confirm(client: Client, **password: str) -> tuple[int, set[str]]:
    """Follow the link that was mailed last: the status, and the fields that were refused."""
    answer = ask(
        client,
        "POST",
        "auth/email/verify",
        {"key": key_in(mail.outbox[-1], "verify-email")} | password,
    )
    return answer.status_code, {error["param"] for error in answer.json().get("errors", [])}


@pytest.mark.parametrize("verification", ["optional", "mandatory"])
def test_the_owner_of_an_address_confirms_no_account_that_somebody_else_made(
    db, settings, verification: str
) -> None:
    settings.ACCOUNT_EMAIL_VERIFICATION = verification
    squatter, _, _ = sign_up()
    for password in ({}, {"password": ""}, {"password": "a guess of the owner"}):
        assert confirm(Client(), **password) == (400, {"password"})
    assert not EmailAddress.objects.get().verified
    # the browser that signed up shows that it reads the mail
    assert confirm(squatter) in [(200, set()), (401, set())]
    assert EmailAddress.objects.get().verified


@pytest.mark.parametrize("verification", ["optional", "mandatory"])
def test_who_knows_the_password_confirms_in_any_browser_and_keeps_their_keys(
    db, settings, verification: str
) -> None:
    settings.ACCOUNT_EMAIL_VERIFICATION = verification
    sign_up()
    user = User.objects.get()
    secret = factories.key_make(Project.objects.get(memberships__user=user), user)
    assert confirm(Client(), password=NEW["password"])[1] == set()
    assert EmailAddress.objects.get().verified and works(secret)


def test_an_account_does_not_get_an_address_by_the_click_of_its_owner(
    project: Project, alice: User
) -> None:
    invited = Membership.objects.create(project=project, email="carol@example.org", role=Role.OWNER)
    taker, _, _ = sign_up()
    assert confirm(taker) == (200, set())
    assert ask(taker, "POST", "account/email", {"email": invited.email}).status_code == 200
    assert confirm(Client()) == (400, {"password"})
    assert taker.get("/v1/account").json()["invitations"] == []
    assert confirm(taker) == (200, set())  # who reads the mail of both
    assert len(taker.get("/v1/account").json()["invitations"]) == 1


def test_the_sign_up_of_another_account_confirms_nothing(db, settings: Settings) -> None:
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    other, _, _ = sign_up("other@example.org")
    sign_up()
    assert confirm(other) == (400, {"password"})


def test_what_an_operator_confirms_ends_what_was_made_before(squatter, rf) -> None:
    client, secret = squatter
    request = rf.post("/admin/")
    request.user = factories.user_make("operator")
    address = EmailAddress.objects.get(email=NEW["email"])
    # of whoever made the account: a password would be mailed to it
    EmailAddress.objects.create(user=address.user, email="squatter@else.example.org", verified=True)
    email_confirmed.send(sender=EmailAddress, request=request, email_address=address)
    assert not works(secret) and not is_in(client)
    assert list(EmailAddress.objects.filter(user=address.user)) == [address]
    assert AuditRecord.objects.filter(content__contains="key_revoke").count() == 1


def test_a_password_reset_confirms_the_address_and_ends_what_was_made_before(squatter) -> None:
    client, secret = squatter
    owner = Client()
    ask(owner, "POST", "auth/password/request", {"email": NEW["email"]})
    reset = {"key": key_in(mail.outbox[-1], "reset-password"), "password": OTHER_PASSWORD}
    ask(owner, "POST", "auth/password/reset", reset)
    assert not works(secret) and not is_in(client)
    # From then on it is a password reset as any other: keys go on.
    kept = factories.key_make(ApiKey.objects.get().project, User.objects.get())
    ask(owner, "POST", "auth/password/request", {"email": NEW["email"]})
    reset = {"key": key_in(mail.outbox[-1], "reset-password"), "password": "a third passphrase"}
    ask(owner, "POST", "auth/password/reset", reset)
    assert works(kept)


def test_who_confirms_in_the_browser_that_signed_up_keeps_their_keys(squatter) -> None:
    client, secret = squatter
    ask(client, "POST", "auth/email/verify", {"key": key_in(mail.outbox[0], "verify-email")})
    assert works(secret) and is_in(client)


def add_address(client: Client, email: str, *, verified: bool) -> None:
    """Another address of the account that this browser is signed in to."""
    assert ask(client, "POST", "account/email", {"email": email}).status_code == 200
    if verified:
        ask(client, "POST", "auth/email/verify", {"key": key_in(mail.outbox[-1], "verify-email")})
    assert EmailAddress.objects.get(email=email).verified is verified


def test_a_password_reset_by_another_address_does_not_confirm_the_accounts_own(squatter) -> None:
    client, _ = squatter
    add_address(client, "squatter@else.example.org", verified=True)
    ask(client, "POST", "auth/password/request", {"email": "squatter@else.example.org"})
    reset = {"key": key_in(mail.outbox[-1], "reset-password"), "password": OTHER_PASSWORD}
    ask(client, "POST", "auth/password/reset", reset)
    assert User.objects.get().check_password(OTHER_PASSWORD)
    assert not EmailAddress.objects.get(email=NEW["email"]).verified


@pytest.fixture
def confirmed(db: None, settings: Settings) -> User:
    """Alice, on a server that takes everyone and has addresses confirmed."""
    policy(settings, "open")
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    alice = factories.user_make("alice")
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    return alice


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one with each password that is hashed: most of the time that a sign-in takes."""
    counted: list[str] = []
    encode = MD5PasswordHasher.encode  # the hasher of the tests
    monkeypatch.setattr(
        MD5PasswordHasher, "encode", lambda self, *of: counted.append("once") or encode(self, *of)
    )
    return counted


def test_sign_up_does_not_tell_who_has_an_account(confirmed: User, hashed: list[str]) -> None:
    seen = []
    for email in ("stranger@example.org", confirmed.email):
        hashed.clear()
        client, status, body = sign_up(email)
        shown = {name for name, value in client.cookies.items() if value.value}
        pending = ask(client, "GET", "auth/session").json()
        seen.append((status, body.replace(email, "EMAIL"), shown, len(hashed), pending))
        assert not is_in(client)
    assert seen[0] == seen[1]
    assert [message.to for message in mail.outbox] == [["stranger@example.org"], [confirmed.email]]


@pytest.mark.parametrize("claims", [0, 2])
def test_the_chosen_password_does_not_tell_who_has_an_account(
    confirmed: User, hashed, settings, claims: int
) -> None:
    """Nor where accounts of the one who asks have the address among theirs, unconfirmed."""
    settings.ACCOUNT_RATE_LIMITS = settings.ACCOUNT_RATE_LIMITS | {"confirm_email": None}
    seen = []
    for email, machine in (
        ("stranger@example.org", "198.51.100.1"),
        (confirmed.email, "203.0.113.1"),
    ):
        for number in range(claims):
            own = factories.user_make(f"own{number}")
            own.set_password(NEW["password"])
            own.save()
            EmailAddress.objects.create(
                user=own, email=f"{number}{email}", verified=True, primary=True
            )
            EmailAddress.objects.create(user=own, email=email)
        browser, _, _ = sign_up(email)
        mail.outbox.clear()
        for client in (browser, Client()):
            for _ in range(3):
                hashed.clear()
                tried = ask(
                    client, "POST", "auth/login", NEW | {"email": email}, REMOTE_ADDR=machine
                )
                shown = {name for name, value in client.cookies.items() if value.value}
                seen.append(
                    (email, tried.status_code, tried.json(), shown, len(hashed), list(mail.outbox))
                )
        hashed.clear()
        Client().post("/admin/login/", {"username": email, "password": NEW["password"]})
        seen.append((email, len(hashed)))
        User.objects.filter(email__startswith="own").delete()
    of = [
        [each[1:] for each in seen if each[0] == email]
        for email in ("stranger@example.org", confirmed.email)
    ]
    assert of[0] == of[1]
    assert of[0][0][0] == 400 and "confirmed" in str(of[0][0][1]) and of[0][0][3] == 1
    assert "too many" in str(of[0][-2][1]).lower()


def test_who_lost_the_mail_of_a_sign_up_gets_in_by_a_password_that_is_set_by_mail(
    confirmed: User,
) -> None:
    browser, _, _ = sign_up()
    assert ask(browser, "POST", "auth/login", NEW).status_code == 400
    ask(Client(), "POST", "auth/password/request", {"email": NEW["email"]})
    reset = {"key": key_in(mail.outbox[-1], "reset-password"), "password": OTHER_PASSWORD}
    ask(Client(), "POST", "auth/password/reset", reset)
    assert ask(browser, "POST", "auth/login", NEW | {"password": OTHER_PASSWORD}).status_code == 200


def test_an_account_that_an_operator_made_without_an_address_is_mailed_a_link_at_its_sign_in(
    confirmed: User,
) -> None:
    made = factories.user_make("made")
    browser = Client()
    asked = ask(
        browser, "POST", "auth/login", {"email": made.email, "password": factories.PASSWORD}
    )
    assert asked.status_code == 401 and mail.outbox[-1].to == [made.email]
    assert confirm(browser)[0] == 401 and sign_in(browser, made).status_code == 200


def in_order(body: str) -> dict[str, Any]:
    """The response, its addresses by name: a database returns them in any order."""
    answer = json.loads(body)
    answer.get("data", []).sort(key=lambda row: row["email"])
    return answer


def test_adding_an_address_does_not_tell_who_has_an_account(confirmed: User) -> None:
    sign_up()
    mailed = Client()
    assert confirm(mailed, password=NEW["password"])[0] == 401
    assert ask(mailed, "POST", "auth/login", NEW).status_code == 200
    seen = []
    for email in ("stranger@example.org", confirmed.email):
        mail.outbox.clear()
        added = ask(mailed, "POST", "account/email", {"email": email})
        made = ask(mailed, "PATCH", "account/email", {"email": email, "primary": True})
        again = ask(mailed, "PUT", "account/email", {"email": email})
        shown = [
            (each.status_code, in_order(each.content.decode().replace(email, "EMAIL")))
            for each in (added, made, again)
        ]
        seen.append((shown, [message.to == [email] for message in mail.outbox]))
        ask(mailed, "DELETE", "account/email", {"email": email})
    assert seen[0] == seen[1]
