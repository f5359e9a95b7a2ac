"""Addresses that a mail server reads as another mailbox, or as none, are refused wherever one is
given.
"""

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client

from console.users.models import Membership, Project, User
from console.users.providers.sign_in import valid_email
from console.users.sign_up import address_check
from support.signing_in import NEW, ask, signed_in

OTHERS_MAILBOX = [
    "=?utf-8?q?bob?=@example.org", "=?utf-8?b?Ym9i?=@example.org", '"bob"@example.org', '"b\\ob"@example.org',
    "bob@exampſe.org",
]  # fmt: skip
NO_MAILBOX = [
    "=?x?q?a=40else.org=3e=00?=b@example.org", "=?utf-8?q?a=0aBcc=3ab?=@example.org", "ſmith@example.org",
    "bob@[127.0.0.1]", '"\x01"@example.org', "bob@xn--a.org", "bob@ ", "b" * 250 + "@example.org",
]  # fmt: skip


@pytest.mark.parametrize("address", [*OTHERS_MAILBOX, *NO_MAILBOX])
def test_what_is_not_written_as_it_is_mailed_to_is_refused(address: str) -> None:
    with pytest.raises(ValidationError):
        address_check(address)
    assert valid_email(address) is None  # of an identity provider


@pytest.mark.parametrize(
    "address",
    [
        "b@example.org",
        "Bob+tag@Example.org",
        "o'neil@x.org",
        "bob@bücher.example",
        "bob@xn--bcher-kva.org",
    ],
)
def test_other_addresses_are_taken(address: str) -> None:
    address_check(address)


def statuses(address: str, alice: User, project: Project) -> dict[str, int]:
    """Of the responses where one is given."""
    browser, known = Client(), signed_in(alice)
    invitation = {"email": address, "role": "member", "project_id": project.id}
    return {
        "sign up": ask(browser, "POST", "auth/signup", NEW | {"email": address}).status_code,
        "reset": ask(browser, "POST", "auth/password/request", {"email": address}).status_code,
        "add": ask(known, "POST", "account/email", {"email": address}).status_code,
        "invite": known.post("/v1/members", invitation, "application/json").status_code,
    }


@pytest.mark.parametrize("address", [OTHERS_MAILBOX[0], NO_MAILBOX[0], NO_MAILBOX[1]])
def test_no_place_takes_one_or_fails_at_it(address: str, alice: User, project: Project) -> None:
    before = User.objects.count(), EmailAddress.objects.count(), Membership.objects.count()
    assert set(statuses(address, alice, project).values()) == {400}
    assert (
        User.objects.count(),
        EmailAddress.objects.count(),
        Membership.objects.count(),
    ) == before
    assert mail.outbox == []
    for command in ("create_user", "create_api_key"):
        with pytest.raises(CommandError):
            call_command(command, address)
