"""Keys and projects: secrets kept as hashes, refused in the same words whatever the reason, fenced
by project.
"""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from console.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unauthenticated
from console.users import keys, selectors, services
from console.users.models import ApiKey, Membership, Project, User
from support import factories
from tinkerscript.wire.account import Role, Scope

READ = [Scope.SESSIONS_READ]


def test_every_user_has_a_project_of_their_own(alice):
    memberships = selectors.project_list(user=alice)
    assert [(m.role, m.project.name) for m in memberships] == [(Role.OWNER, "alice")]


def test_an_address_makes_one_user_however_it_is_written(alice):
    with pytest.raises(Conflict):
        services.user_create(email="Alice@Example.com")
    assert User.objects.count() == 1 and Project.objects.count() == 1


def test_a_secret_is_256_bits_and_stored_only_as_a_hash(project, alice):
    key, secret = keys.key_create(project=project, user=alice, name="laptop", scopes=READ)
    assert secret.startswith("tml-ts_") and len(secret) == len("tml-ts_") + 43
    row = ApiKey.objects.filter(id=key.id).values().get()
    assert secret.startswith(row["prefix"]) and len(row["prefix"]) == 12 < 32 < len(secret)
    assert secret[:13] not in str(row) and secret[12:] not in str(row) and len(row["sha256"]) == 64


def test_a_key_authenticates_as_its_project_and_user(project, alice):
    secret = factories.key_make(project, alice)
    key = keys.key_authenticate(secret=secret)
    assert (key.project, key.user) == (project, alice)


def test_refusals_are_the_same_whatever_the_reason(project, alice, settings):
    settings.PUBLIC_URL = "https://train.example"
    revoked, expired, left, inactive = (factories.key_make(project, alice) for _ in range(4))
    ApiKey.objects.filter(prefix=revoked[:12]).update(revoked_at=timezone.now())
    ApiKey.objects.filter(prefix=expired[:12]).update(expires_at=timezone.now())
    carol = factories.member_make(project, "carol", Role.MEMBER)
    left = factories.key_make(project, carol)
    Membership.objects.filter(user=carol, project=project).delete()
    dora = factories.member_make(project, "dora", Role.MEMBER)
    inactive = factories.key_make(project, dora)
    User.objects.filter(id=dora.id).update(is_active=False)
    refusals = set()
    for secret in ["", "x", "tml-ts_" + "A" * 43, revoked, expired, left, inactive]:
        with pytest.raises(Unauthenticated) as refused:
            keys.key_authenticate(secret=secret)
        refusals.add((refused.value.message, refused.value.hint))
    assert len(refusals) == 1
    assert "https://train.example/keys" in refusals.pop()[1]


def test_last_use_is_written_at_most_once_a_minute(project, alice, django_assert_num_queries):
    secret = factories.key_make(project, alice)
    keys.key_authenticate(secret=secret)
    first = ApiKey.objects.get().last_used_at
    assert first is not None
    with django_assert_num_queries(2):  # the key, the membership: no write
        keys.key_authenticate(secret=secret)
    assert ApiKey.objects.get().last_used_at == first
    ApiKey.objects.update(last_used_at=first - timedelta(seconds=61))
    keys.key_authenticate(secret=secret)
    assert ApiKey.objects.get().last_used_at >= first


def test_a_key_expires_when_it_said(project, alice):
    key, _secret = keys.key_create(
        project=project, user=alice, name="", scopes=READ, expires_in_days=2
    )
    assert timedelta(days=1, hours=23) < key.expires_at - timezone.now() <= timedelta(days=2)


def test_revoking_is_final_and_repeatable(project, alice):
    key, _secret = keys.key_create(project=project, user=alice, name="", scopes=READ)
    keys.key_revoke(project=project, user=alice, key_id=key.id)
    first = ApiKey.objects.get().revoked_at
    keys.key_revoke(project=project, user=alice, key_id=key.id)
    assert ApiKey.objects.get().revoked_at == first is not None


def test_a_caller_id_that_is_none_is_refused_and_fails_nowhere(project, alice, member):
    """A session's runtime signs them, and may write anything."""
    good = keys.person_caller_id(membership=Membership.objects.get(project=project, user=member))
    assert keys.caller_is_good(caller_id=good)
    of_user, _, rest = good.removeprefix("user:").partition(":")
    for number in ("", "x", "-1", "1e3", "٣", "9" * 18, "9" * 400, "1\0", " 1", "1_0"):
        assert not keys.caller_is_good(caller_id=f"user:{number}:{rest}")
    for odd in (
        "user",
        "user:",
        f"user:{of_user}",
        f"user:{of_user}:",
        good.rpartition(":")[0],
        f"{good}:",
        f"{good}:more",
        f"{good}\0",
        f"{good} ",
    ):
        assert not keys.caller_is_good(caller_id=odd)
    key, _ = keys.key_create(project=project, user=alice, name="k", scopes=[Scope.EPISODES])
    assert keys.caller_is_good(caller_id=key.id)
    for odd in (f"{key.id}\0", f"{key.id} ", "\0", "key_" + "0" * 400, "ключ"):
        assert not keys.caller_is_good(caller_id=odd)


def test_another_projects_key_can_neither_be_seen_nor_revoked(project, alice, bob):
    key, secret = keys.key_create(project=project, user=alice, name="", scopes=READ)
    bobs = selectors.project_get(user=bob)
    assert list(selectors.key_list(project=bobs)) == []
    with pytest.raises(NotFound):
        keys.key_revoke(project=bobs, user=bob, key_id=key.id)
    keys.key_authenticate(secret=secret)


def test_owner_and_member_reach_a_project_and_an_outsider_does_not(project, alice, member, bob):
    assert selectors.project_get(user=alice, project_id=project.id) == project
    assert selectors.project_get(user=member, project_id=project.id) == project
    for project_id in (project.id, "prj_none"):
        with pytest.raises(NotFound):
            selectors.project_get(user=bob, project_id=project_id)
    with pytest.raises(NotFound):
        keys.key_create(project=project, user=bob, name="", scopes=READ)


def test_without_an_id_it_is_the_users_own_project(project, member):
    assert selectors.project_get(user=member) != project


@pytest.mark.parametrize(
    ("role", "scopes", "allowed"),
    [
        (Role.OWNER, [Scope.ADMIN], True),
        (Role.MEMBER, [Scope.ADMIN], False),
        (Role.MEMBER, [Scope.SESSIONS_WRITE, Scope.EPISODES], True),
        (Role.VIEWER, [Scope.SESSIONS_READ, Scope.CHECKPOINTS_READ], True),
        (Role.VIEWER, [Scope.SESSIONS_WRITE], False),
    ],
)
def test_a_key_can_do_no_more_than_who_makes_it(project, role, scopes, allowed):
    user = factories.member_make(project, "nora", role)
    if allowed:
        keys.key_create(project=project, user=user, name="", scopes=scopes)
    else:
        with pytest.raises(Forbidden):
            keys.key_create(project=project, user=user, name="", scopes=scopes)


def test_a_key_without_a_scope_is_refused(project, alice):
    with pytest.raises(InvalidRequest):
        keys.key_create(project=project, user=alice, name="", scopes=[])


def test_who_signs_up_in_the_browser_gets_a_project(db):
    body = {"email": "Nina@Example.com", "password": "a long enough passphrase"}
    answer = Client().post(
        "/_allauth/browser/v1/auth/signup", body, content_type="application/json"
    )
    assert answer.status_code == 200, answer.content
    user = User.objects.get(email="nina@example.com")
    assert selectors.role_get(user=user, project=selectors.project_get(user=user)) is Role.OWNER


def test_who_was_made_by_a_service_can_sign_in_in_the_browser(alice):
    body = {"email": alice.email, "password": factories.PASSWORD}
    answer = Client().post("/_allauth/browser/v1/auth/login", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
