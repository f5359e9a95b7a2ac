"""Projects and who works in them: owner, member, viewer, outsider, and those who are only
invited.
"""

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.test import Client

from console.users.models import ApiKey, Membership, Project, User
from support import factories
from tinkerscript.wire.account import Role

JSON = "application/json"


def person(user: User, project: Project | None = None) -> Client:
    client = Client(headers={"X-Project-Id": project.id} if project else {})
    client.force_login(user)
    return client


def confirmed(user: User, email: str = "") -> User:
    """Somebody who has proved to read the address."""
    EmailAddress.objects.create(user=user, email=email or user.email, verified=True)
    return user


def invite(owner: User, project: Project, email: str, role: str = "member"):
    return person(owner, project).post(
        "/v1/members", {"email": email, "role": role}, content_type=JSON
    )


def own_id(user: User, project: Project) -> str:
    return Membership.objects.get(user=user, project=project).member_id


# -- Projects ---------------------------------------------------------------------------------------------------------


def test_who_makes_a_project_owns_it_and_finds_it_in_their_list(bob) -> None:
    made = person(bob).post("/v1/projects", {"name": "second"}, content_type=JSON)
    assert (made.status_code, made.json()["role"]) == (201, "owner")
    assert [entry["name"] for entry in person(bob).get("/v1/projects").json()["items"]] == [
        "bob",
        "second",
    ]


def test_an_owner_renames_the_project_and_no_one_else_does(project, alice, member, bob) -> None:
    viewer = factories.member_make(project, "vera", Role.VIEWER)
    for user, expected in [(member, 403), (viewer, 403), (bob, 404), (alice, 200)]:
        answer = person(user).patch(
            f"/v1/projects/{project.id}", {"name": "new name"}, content_type=JSON
        )
        assert answer.status_code == expected, answer.content
    assert Project.objects.get(id=project.id).name == "new name"


@pytest.mark.parametrize(
    "body", [{}, {"name": ""}, {"name": "x" * 121}, {"name": "n", "role": "owner"}]
)
def test_a_malformed_project_is_refused_with_the_field(body, alice) -> None:
    answer = person(alice).post("/v1/projects", body, content_type=JSON)
    assert answer.status_code == 400
    assert answer.json()["error"]["details"]["fields"]


# -- Invitations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", ["\xff\x145@x", "a@\x99.example", "a@b@example.com", "a b@example.com", "a@b"]
)
def test_an_address_that_no_mail_reaches_is_not_invited(address, project, alice) -> None:
    assert invite(alice, project, address).status_code == 400
    assert Membership.objects.filter(project=project, user=None).count() == 0


def test_an_invited_person_gets_in_by_accepting_and_not_before(project, alice, bob) -> None:
    confirmed(bob)
    made = invite(alice, project, "Bob@Example.com").json()
    assert (made["email"], made["is_invited"]) == ("bob@example.com", True)
    assert person(bob, project).get("/v1/sessions").status_code == 404
    (invitation,) = person(bob).get("/v1/account").json()["invitations"]
    assert invitation["project_name"] == project.name
    assert project.id not in str(invitation)  # its id comes with membership
    answer = person(bob).post(f"/v1/invitations/{invitation['id']}/accept")
    assert (answer.status_code, answer.json()["role"]) == (200, "member")
    assert person(bob, project).get("/v1/sessions").status_code == 200
    assert person(bob).get("/v1/account").json()["invitations"] == []


def test_accepting_an_invitation_from_before_the_account_leaves_the_default_project_as_it_is(
    project, alice
) -> None:
    invitation = invite(alice, project, "nina@example.com").json()["id"]
    nina = confirmed(factories.user_make("nina"))
    assert person(nina).post(f"/v1/invitations/{invitation}/accept").status_code == 200
    assert [entry["name"] for entry in person(nina).get("/v1/account").json()["projects"]] == [
        "nina",
        project.name,
    ]


def test_the_response_does_not_reveal_whether_an_address_has_an_account(
    project, alice, bob
) -> None:
    known, unknown = invite(alice, project, bob.email), invite(alice, project, "nobody@example.com")
    assert known.status_code == unknown.status_code == 201
    assert set(known.json()) == set(unknown.json())
    assert known.json()["is_invited"] == unknown.json()["is_invited"]


def test_an_invitation_is_for_who_proved_to_read_the_address(project, alice, bob, settings) -> None:
    invitation = invite(alice, project, bob.email).json()["id"]
    EmailAddress.objects.create(user=bob, email=bob.email, verified=False)
    assert person(bob).get("/v1/account").json()["invitations"] == []
    assert person(bob).post(f"/v1/invitations/{invitation}/accept").status_code == 404
    eve = confirmed(factories.user_make("eve"))
    assert person(eve).post(f"/v1/invitations/{invitation}/accept").status_code == 404
    # then the address is taken at its word, as at sign-up
    settings.ACCOUNT_EMAIL_VERIFICATION = "none"
    assert person(bob).post(f"/v1/invitations/{invitation}/accept").status_code == 200


def test_a_declined_or_withdrawn_invitation_is_gone(project, alice, bob) -> None:
    confirmed(bob)
    first = invite(alice, project, bob.email).json()["id"]
    assert person(bob).delete(f"/v1/invitations/{first}").status_code == 204
    second = invite(alice, project, bob.email).json()["id"]
    assert person(alice, project).delete(f"/v1/members/{second}").status_code == 204
    for invitation in (first, second):
        assert person(bob).post(f"/v1/invitations/{invitation}/accept").status_code == 404
    assert Membership.objects.filter(project=project).count() == 1


def test_an_invitation_is_mailed_without_a_word_of_the_senders(
    project, alice, django_capture_on_commit_callbacks
) -> None:
    Project.objects.filter(id=project.id).update(
        name="lab https://evil.example\nBcc: everybody@example.com"
    )
    with django_capture_on_commit_callbacks(execute=True):
        assert invite(alice, project, "nina@example.com").status_code == 201
    (message,) = mail.outbox
    assert message.to == ["nina@example.com"]
    assert "lab" not in message.subject and "evil.example" not in message.body
    assert list(message.message().keys()).count("Bcc") == 0


def test_only_a_person_with_a_confirmed_address_invites(project, alice, settings) -> None:
    address = EmailAddress.objects.create(user=alice, email=alice.email, verified=False)
    refused = invite(alice, project, "nina@example.com")
    assert refused.status_code == 403 and "Confirm" in refused.json()["error"]["hint"]
    address.verified = True
    address.save()
    assert invite(alice, project, "nina@example.com").status_code == 201


def test_a_day_has_so_many_invitations_by_one_person_and_to_one_address(
    project, alice, bob, monkeypatch
) -> None:
    monkeypatch.setattr("console.users.members.MAX_SENT_A_DAY", 3)
    monkeypatch.setattr("console.users.members.MAX_RECEIVED_A_DAY", 2)

    def invite_and_withdraw(owner: User, address: str) -> int:
        own = project if owner == alice else Project.objects.get(memberships__user=owner)
        response = invite(owner, own, address)
        if response.status_code == 201:
            person(owner, own).delete(f"/v1/members/{response.json()['id']}")
        return response.status_code

    assert [invite_and_withdraw(alice, "nina@example.com") for _ in range(3)] == [201, 201, 429]
    assert invite_and_withdraw(bob, "nina@example.com") == 429
    assert [invite_and_withdraw(alice, f"{name}@example.com") for name in "ab"] == [429, 429]
    assert invite_and_withdraw(bob, "other@example.com") == 201


def test_the_same_address_is_invited_once(project, alice, member) -> None:
    assert invite(alice, project, "nina@example.com").status_code == 201
    for address in ("NINA@example.com", member.email):
        assert invite(alice, project, address).status_code == 409


@pytest.mark.parametrize(
    "email", ["", "x", "a@b@c", "a b@c", "@c", "a@", "a" * 65 + "@b", "a@b\nc"]
)
def test_what_is_no_address_is_refused(email, project, alice) -> None:
    assert invite(alice, project, email).status_code == 400


def test_invitations_are_not_for_keys(project, alice, bob, client_for) -> None:
    confirmed(bob)
    invitation = invite(alice, project, bob.email).json()["id"]
    own = Project.objects.get(memberships__user=bob)
    from tinkerscript.wire.account import Scope

    client = client_for(factories.key_make(own, bob, list(Scope)))
    assert client.get("/v1/account").json()["invitations"] == []
    assert client.post(f"/v1/invitations/{invitation}/accept").status_code == 403


# -- Roles ------------------------------------------------------------------------------------------------------------


def test_an_owner_changes_roles_and_the_change_holds_at_once(project, alice, member) -> None:
    session = {"base_model": factories.BASE_MODEL}
    assert (
        person(member, project).post("/v1/sessions", session, content_type=JSON).status_code == 201
    )
    path = f"/v1/members/{own_id(member, project)}"
    assert (
        person(member, project).patch(path, {"role": "owner"}, content_type=JSON).status_code == 403
    )
    assert (
        person(alice, project).patch(path, {"role": "viewer"}, content_type=JSON).json()["role"]
        == "viewer"
    )
    assert (
        person(member, project).post("/v1/sessions", session, content_type=JSON).status_code == 403
    )


def test_the_last_owner_can_neither_leave_nor_be_demoted(project, alice, member) -> None:
    mine = f"/v1/members/{own_id(alice, project)}"
    invite(alice, project, "nina@example.com", "owner")  # who has not accepted is no owner yet
    assert person(alice, project).delete(mine).status_code == 409
    assert (
        person(alice, project).patch(mine, {"role": "member"}, content_type=JSON).status_code == 409
    )
    theirs = f"/v1/members/{own_id(member, project)}"
    assert (
        person(alice, project).patch(theirs, {"role": "owner"}, content_type=JSON).status_code
        == 200
    )
    assert person(alice, project).delete(mine).status_code == 204


def test_a_removed_member_is_out_at_once_and_their_keys_end(
    project, alice, member, client_for
) -> None:
    key = client_for(factories.key_make(project, member))
    assert key.get("/v1/sessions").status_code == 200
    assert (
        person(alice, project).delete(f"/v1/members/{own_id(member, project)}").status_code == 204
    )
    assert person(member, project).get("/v1/sessions").status_code == 404
    assert key.get("/v1/sessions").status_code == 401
    Membership.objects.create(project=project, user=member, role=Role.MEMBER)
    assert key.get("/v1/sessions").status_code == 401  # coming back does not bring old keys back
    assert not ApiKey.objects.filter(project=project, user=member, revoked_at=None).exists()


def test_a_member_and_a_viewer_leave_by_themselves_and_remove_no_one_else(
    project, alice, member
) -> None:
    viewer = factories.member_make(project, "vera", Role.VIEWER)
    assert (
        person(viewer, project).delete(f"/v1/members/{own_id(member, project)}").status_code == 403
    )
    assert (
        person(member, project).delete(f"/v1/members/{own_id(viewer, project)}").status_code == 403
    )
    for user in (member, viewer):
        assert (
            person(user, project).delete(f"/v1/members/{own_id(user, project)}").status_code == 204
        )
    assert [
        entry["email"] for entry in person(alice, project).get("/v1/members").json()["items"]
    ] == [alice.email]


def test_no_one_is_left_without_a_project(project, alice) -> None:
    lone = factories.member_make(project, "lone", Role.MEMBER)
    Membership.objects.filter(user=lone).exclude(project=project).delete()
    assert person(alice, project).delete(f"/v1/members/{own_id(lone, project)}").status_code == 204
    assert [entry["role"] for entry in person(lone).get("/v1/account").json()["projects"]] == [
        "owner"
    ]


def test_a_viewer_makes_and_ends_a_key_that_reads(project) -> None:
    viewer = person(factories.member_make(project, "vera", Role.VIEWER), project)
    assert viewer.post("/v1/keys", {}, content_type=JSON).status_code == 403
    made = viewer.post("/v1/keys", {"scopes": ["sessions:read"]}, content_type=JSON).json()
    assert viewer.delete(f"/v1/keys/{made['id']}").status_code == 204
