"""Sign-in with an OpenID Connect provider: whose account it leads to, who gets one, and which roles
groups give.
"""

from dataclasses import replace
from io import StringIO
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from allauth.socialaccount.models import SocialAccount
from django.conf import global_settings
from django.contrib.sessions.models import Session as SessionRow
from django.core import mail
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from console.audit.models import AuditRecord
from console.config.oidc import oidc_provider
from console.config.sign_up import SignUp
from console.users.models import ApiKey, Membership, Project, User
from console.users.providers.sign_in import BEGUN_S, SIGN_IN, person_key
from console.users.services import user_create
from console.users.sign_in_sessions import SessionStore
from console.users.sign_up import access_end
from support import factories
from support.identity_provider import BEGIN, IdentityProvider, identity_provider_start
from support.signing_in import ask, is_in, sign_in, signed_in
from tinkerscript.wire.account import Role

NINA = "nina@lab.example.org"


@pytest.fixture(scope="module")
def started():
    with identity_provider_start() as provider:
        yield provider


@pytest.fixture
def provider(started: IdentityProvider, settings: Settings, db: None) -> IdentityProvider:
    use(settings, started)
    return started


def use(
    settings: Settings, provider: IdentityProvider, policy: str = "open", **known: tuple
) -> None:
    settings.OIDC = provider.settings(**known)
    settings.SOCIALACCOUNT_PROVIDERS = oidc_provider(settings.OIDC)
    domains = frozenset({"lab.example.org"} if policy == "domains" else ())
    settings.SIGN_UP = SignUp(policy, domains, "mandatory")
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"


def come(provider: IdentityProvider, sub: str = "nina", **claims: object) -> tuple[Client, str]:
    """A browser that has come back from the provider, and where it was sent then."""
    provider.person_set(sub, **({"email": NINA, "email_verified": True} | claims))
    browser = Client()
    return browser, provider.sign_in(browser, sub).headers["Location"]


# -- A person of their own ---------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_person_gets_an_account_with_a_project_and_finds_it_again(
    provider: IdentityProvider,
) -> None:
    browser, location = come(provider)
    assert location == "/signin/done" and is_in(browser)
    user = User.objects.get(email=NINA)
    assert not user.has_usable_password()
    assert Membership.objects.get(user=user).role == Role.OWNER
    assert EmailAddress.objects.get(user=user).verified
    # the provider's id is what counts from then on
    again, _ = come(provider, email="Married@lab.example.org")
    assert again.get("/v1/account").json()["email"] == NINA
    assert User.objects.count() == Project.objects.count() == 1


def test_a_sign_in_ends_after_a_working_day_and_is_recorded(provider: IdentityProvider) -> None:
    browser, _ = come(provider)
    assert browser.cookies["sessionid"]["max-age"] == pytest.approx(SIGN_IN.total_seconds(), abs=5)
    assert AuditRecord.objects.filter(content__contains='"action":"sign_in"').count() == 1


def test_requests_of_a_sign_in_do_not_make_it_last_longer(provider: IdentityProvider) -> None:
    browser, _ = come(provider)
    row = SessionRow.objects.filter(
        pk=SessionStore.of_cookie(browser.cookies["sessionid"].value).session_key
    )
    ends = row.get().expire_date
    assert browser.post(BEGIN).status_code == 200  # keeps a state in the session, which saves it
    assert "socialaccount_states" in row.get().get_decoded()
    assert row.get().expire_date == ends


def test_a_second_factor_is_asked_for_after_the_provider(provider: IdentityProvider) -> None:
    come(provider)
    TOTP.activate(User.objects.get(email=NINA), generate_totp_secret())
    browser, _ = come(provider)
    assert not is_in(browser)
    flows = ask(browser, "GET", "auth/session").json()["data"]["flows"]
    assert any(flow["id"] == "mfa_authenticate" and flow.get("is_pending") for flow in flows)


@pytest.mark.smoke
def test_another_provider_gives_nobody_an_account_by_its_id_of_a_person(
    provider, settings: Settings
) -> None:
    """The operator has changed the issuer: the new one knows another person by the same id, and
    Nina by another.
    """
    come(provider, sub="1001")
    with identity_provider_start() as other:
        use(settings, other)
        browser, _ = come(other, sub="1001", email="mallory@lab.example.org")
        assert browser.get("/v1/account").json()["email"] == "mallory@lab.example.org"
        browser, _ = come(other, sub="7")
        assert browser.get("/v1/account").json()["email"] == NINA, (
            "the confirmed address leads to her account"
        )
        browser, _ = come(other, sub="7", email="married@lab.example.org")
        assert browser.get("/v1/account").json()["email"] == NINA
    assert User.objects.count() == 2


def test_an_operator_adds_the_address_that_a_person_has_at_a_new_provider(
    provider: IdentityProvider,
) -> None:
    call_command(
        "createsuperuser", username="operator", email="operator@example.com", interactive=False
    )
    vera, admin_client = factories.user_make("vera"), Client()
    admin_client.force_login(User.objects.get(email="operator@example.com"))
    added = {"user": vera.id, "email": NINA, "verified": "on"}
    assert admin_client.post("/admin/account/emailaddress/add/", added).status_code == 302
    browser, _ = come(provider)
    assert browser.get("/v1/account").json()["email"] == vera.email


# -- Another person's address ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", [False, "false", None, 1])
def test_an_address_that_the_provider_has_not_confirmed_leads_nowhere(
    provider, alice: User, claim: object
) -> None:
    browser, location = come(provider, email=alice.email, email_verified=claim)
    assert location.startswith("/signin/done?error=unconfirmed_address") and not is_in(browser)
    browser, _ = come(provider, sub="other", email="new@lab.example.org", email_verified=claim)
    assert not is_in(browser)
    assert User.objects.count() == 1 and not SocialAccount.objects.exists()


def test_an_address_that_a_database_takes_for_the_same_is_another_persons(provider) -> None:
    """Where case is ignored ı is i for PostgreSQL: the domains are two, and anyone may have the
    second.
    """
    ida = user_create(email="ida@initech.example.org")
    EmailAddress.objects.create(user=ida, email=ida.email, verified=True, primary=True)
    EmailAddress.objects.create(user=ida, email="ida@second.initech.example.org", verified=False)
    browser, _ = come(provider, email="ida@ınitech.example.org")
    assert browser.get("/v1/account").json()["email"] == "ida@ınitech.example.org"
    assert not SocialAccount.objects.filter(user=ida).exists()
    browser, _ = come(provider, sub="second", email="ida@second.ınitech.example.org")
    assert EmailAddress.objects.filter(user=ida).count() == 2, "nothing of hers ended"


def test_an_account_that_the_operator_wrote_in_capitals_is_found(provider) -> None:
    ida = factories.user_make("ida")
    User.objects.filter(id=ida.id).update(email="Ida@Example.com")
    browser, _ = come(provider, email="ida@example.com")
    assert SocialAccount.objects.get().user == ida and is_in(browser)


def test_a_domain_may_be_trusted_where_the_provider_says_nothing(
    provider, settings: Settings
) -> None:
    use(settings, provider, trusted=("lab.example.org",))
    for email, claim, expected in (
        (NINA, None, True),
        (NINA, False, False),
        ("nina@else.example.org", None, False),
    ):
        browser, _ = come(provider, sub=f"{email}{claim}", email=email, email_verified=claim)
        assert is_in(browser) is expected


def test_what_someone_made_with_an_address_ends_when_its_owner_comes(
    provider, settings: Settings
) -> None:
    """They know the password, have a key, a second factor and another address, and signed in at the
    provider.
    """
    squatter = factories.user_make("victim")
    EmailAddress.objects.create(user=squatter, email=squatter.email, verified=False, primary=True)
    EmailAddress.objects.create(user=squatter, email="squatter@else.example.org", verified=True)
    settings.ACCOUNT_EMAIL_VERIFICATION = "optional"
    browser = signed_in(squatter)
    TOTP.activate(squatter, generate_totp_secret())
    factories.key_make(squatter.memberships.get().project, squatter)
    SocialAccount.objects.create(user=squatter, provider="oidc", uid="attacker")
    owner, _ = come(provider, sub="owner", email=squatter.email)
    assert is_in(owner) and not is_in(browser)
    squatter.refresh_from_db()
    assert not squatter.has_usable_password()
    assert not ApiKey.objects.filter(revoked_at=None).exists()
    assert SocialAccount.objects.get().uid == person_key(provider.issuer, "owner")
    ask(Client(), "POST", "auth/password/request", {"email": "squatter@else.example.org"})
    assert not any("/reset-password/" in message.body for message in mail.outbox)


def test_who_has_confirmed_the_address_keeps_what_they_have(provider: IdentityProvider) -> None:
    user = factories.user_make("vera")
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    factories.key_make(user.memberships.get().project, user)
    browser, _ = come(provider, email=user.email)
    assert is_in(browser)
    user.refresh_from_db()
    assert user.has_usable_password() and ApiKey.objects.filter(revoked_at=None).exists()


def test_who_got_the_account_from_the_operator_keeps_what_they_have(
    provider: IdentityProvider,
) -> None:
    secret = StringIO()
    call_command("create_api_key", NINA, stdout=secret)
    browser, _ = come(provider)
    assert is_in(browser)
    assert (
        Client(headers={"Authorization": f"Bearer {secret.getvalue().strip()}"})
        .get("/v1/account")
        .status_code
        == 200
    )


def test_an_address_that_another_account_only_claims_is_not_its_owners(
    provider: IdentityProvider, alice: User
) -> None:
    EmailAddress.objects.create(user=alice, email=NINA, verified=False)
    browser, _ = come(provider)
    assert browser.get("/v1/account").json()["email"] == NINA


def test_links_to_the_provider_end_with_all_other_access(provider: IdentityProvider) -> None:
    come(provider)
    access_end(user=User.objects.get(email=NINA), reason="a test")
    assert not SocialAccount.objects.exists()


def test_a_person_whose_account_was_closed_comes_in_by_no_provider(
    provider: IdentityProvider,
) -> None:
    come(provider)
    User.objects.update(is_active=False)
    browser, location = come(provider)
    assert location.startswith("/signin/done?error=") and not is_in(browser)


# -- Who may have an account -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "email", "expected"),
    [
        ("closed", NINA, False),
        ("invited", NINA, False),
        ("domains", NINA, True),
        ("domains", "nina@evil.example.org", False),
        ("open", NINA, True),
    ],
)
def test_the_rules_of_sign_up_hold_for_who_comes_by_the_provider(
    provider, settings, policy, email, expected
) -> None:
    use(settings, provider, policy)
    browser, location = come(provider, email=email)
    assert is_in(browser) is expected and ("error=signup_closed" in location) is not expected


def test_an_invitation_or_a_group_with_a_role_lets_a_person_in(
    provider, settings: Settings, project: Project
) -> None:
    use(settings, provider, "invited", roles=(("ml", project.id, Role.MEMBER),))
    assert not is_in(come(provider, groups=["sales"])[0])
    assert is_in(come(provider, groups=["ml"])[0])
    project.memberships.create(email="guest@else.example.org", role=Role.VIEWER)
    assert is_in(come(provider, sub="guest", email="guest@else.example.org")[0])
    use(settings, provider, "closed", roles=(("ml", project.id, Role.MEMBER),))
    assert not is_in(come(provider, sub="other", email="other@lab.example.org", groups=["ml"])[0])


# -- Groups ------------------------------------------------------------------------------------------------------------


def test_groups_give_change_and_take_roles_at_each_sign_in(
    provider, settings: Settings, project: Project
) -> None:
    use(
        settings,
        provider,
        roles=(("ml", project.id, Role.MEMBER), ("leads", project.id, Role.OWNER)),
    )

    def role_with(*groups: str) -> str | None:
        come(provider, groups=list(groups))
        member = Membership.objects.filter(project=project, user__email=NINA).first()
        return member.role if member else None

    assert role_with("sales") is None
    assert role_with("ml") == Role.MEMBER
    assert role_with("ml", "leads") == Role.OWNER
    factories.key_make(project, User.objects.get(email=NINA))
    assert role_with() is None
    assert not ApiKey.objects.filter(project=project, user__email=NINA, revoked_at=None).exists()
    recorded = AuditRecord.objects.filter(
        project_id=project.id, content__contains="member_role_by_group"
    )
    assert recorded.count() == 3


def test_a_provider_that_does_not_say_the_groups_changes_no_role(
    provider, settings, project, caplog
) -> None:
    """The claim has another name, its mapper is gone, or it is too long for the token (Entra ID:
    _claim_names).
    """
    use(settings, provider, roles=(("ml", project.id, Role.MEMBER),))
    come(provider, groups="ml")  # some providers send a single group as text
    user = User.objects.get(email=NINA)
    factories.key_make(project, user)
    for claims in ({}, {"groups": {"ml": True}}, {"_claim_names": {"groups": "src1"}}):
        caplog.clear()
        browser, _ = come(provider, **claims)
        assert is_in(browser) and "sent no groups of nina" in caplog.text
        assert Membership.objects.get(project=project, user=user).role == Role.MEMBER
    assert ApiKey.objects.filter(project=project, user=user, revoked_at=None).exists()


def test_the_last_owner_stays_and_unknown_projects_stop_nobody(
    provider, settings, project, alice: User
) -> None:
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    use(
        settings,
        provider,
        roles=(("ml", project.id, Role.MEMBER), ("ml", "prj_nothing", Role.OWNER)),
    )
    browser, _ = come(provider, email=alice.email, groups=[])
    assert is_in(browser)
    assert Membership.objects.get(project=project, user=alice).role == Role.OWNER


# -- The way there and back --------------------------------------------------------------------------------------------


def test_only_paths_of_this_server_are_come_back_to(provider: IdentityProvider) -> None:
    provider.person_set("nina", email=NINA, email_verified=True)
    for evil in ("https://evil.example/", "//evil.example/", "/\\evil.example"):
        browser = Client()
        browser.post(f"/sign-in/oidc/begin?next={evil}")
        kept = SessionStore.of_cookie(browser.cookies["sessionid"].value)
        state = next(iter(kept["socialaccount_states"].values()))[0]
        assert state["next"] == "/"


def test_the_provider_is_asked_for_the_scopes_of_the_settings(provider, settings: Settings) -> None:
    settings.SOCIALACCOUNT_PROVIDERS = oidc_provider(
        replace(settings.OIDC, scopes=("openid", "email", "groups"))
    )
    location = Client().post(BEGIN).json()["location"]
    assert set(parse_qs(urlsplit(location).query)["scope"][0].split()) == {
        "openid",
        "email",
        "groups",
    }


def test_a_stranger_cannot_finish_anothers_sign_in(provider: IdentityProvider) -> None:
    assert (
        "error="
        in Client().get("/sign-in/oidc/callback?code=stolen&state=guessed").headers["Location"]
    )
    guarded = Client(enforce_csrf_checks=True)
    assert guarded.post(BEGIN).status_code == 403
    assert guarded.get(BEGIN).status_code == 405


def test_a_response_of_the_provider_is_taken_once_and_in_the_browser_that_asked(
    provider: IdentityProvider,
) -> None:
    provider.person_set("nina", email=NINA, email_verified=True)
    browser, thief = Client(), Client()
    back = provider.come_back(browser, "nina")
    thief.post(BEGIN)
    assert "error=" in thief.get(back).headers["Location"] and not is_in(thief)
    assert browser.get(back).headers["Location"] == "/signin/done"
    browser.post("/sign-out")
    browser.cookies.clear()
    assert "error=" in browser.get(back).headers["Location"] and not is_in(browser)
    used = parse_qs(urlsplit(back).query)["code"][0]
    state = parse_qs(urlsplit(provider.come_back(browser, "nina")).query)["state"][0]
    again = browser.get(f"/sign-in/oidc/callback?code={used}&state={state}")
    assert "error=" in again.headers["Location"] and not is_in(browser), (
        "the state is new, the code was used"
    )


def provider_lose(settings: Settings) -> None:
    settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["settings"]["server_url"] = (
        "http://127.0.0.1:9"
    )


def test_sign_ins_that_one_address_begins_are_limited(provider, settings: Settings) -> None:
    provider_lose(settings)
    statuses = [Client().post(BEGIN).status_code for _ in range(31)]
    assert statuses == [503] * 30 + [429]
    assert Client(REMOTE_ADDR="192.0.2.7").post(BEGIN).status_code == 503


def test_what_a_sign_in_that_was_only_begun_keeps_goes_soon_and_shortens_no_other(
    provider, alice: User
) -> None:
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    browser = Client()
    browser.post(BEGIN)
    assert browser.cookies["sessionid"]["max-age"] == BEGUN_S
    assert sign_in(browser, alice).status_code == 200
    assert browser.cookies["sessionid"]["max-age"] == global_settings.SESSION_COOKIE_AGE


def test_a_provider_that_does_not_respond_is_said_so(provider, settings: Settings) -> None:
    provider_lose(settings)
    response = Client().post(BEGIN)
    assert response.status_code == 503 and "does not respond" in response.json()["error"]["message"]


@pytest.mark.system
def test_without_a_provider_there_is_nothing_here(db: None) -> None:
    assert (
        Client().post(BEGIN).status_code
        == Client().get("/sign-in/oidc/callback").status_code
        == 404
    )
