"""Each way on which an account could be made, by somebody whom the rules of sign-up do not let
in.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import Settings

from console.config.oidc import oidc_provider
from console.config.sign_up import SignUp
from console.users.models import Membership, Project, User
from support.identity_provider import IdentityProvider, identity_provider_start
from support.signing_in import NEW, ask, is_in
from tinkerscript.wire.account import Role

OUTSIDE, LAB = "mallory@else.example.org", "lab.example.org"
PREFIX = "_allauth/browser/v1/"


@pytest.fixture(scope="module")
def started() -> Iterator[IdentityProvider]:
    with identity_provider_start() as oidc:
        oidc.person_set("mallory", email=OUTSIDE, email_verified=True)
        yield oidc


@pytest.fixture
def ways(started, settings: Settings, db: None) -> dict[str, Callable[[], Any]]:
    """Functions: somebody with the address OUTSIDE comes this way. The provider has confirmed
    it.
    """
    oidc = started
    settings.OIDC = oidc.settings()
    settings.SOCIALACCOUNT_PROVIDERS = oidc_provider(settings.OIDC)
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    return {
        "form": lambda: ask(Client(), "POST", "auth/signup", NEW | {"email": OUTSIDE}),
        "oidc": lambda: oidc.sign_in(Client(), "mallory"),
    }


def allow(settings: Settings, policy: str) -> None:
    settings.SIGN_UP = SignUp(policy, frozenset({LAB} if policy == "domains" else ()), "mandatory")


@pytest.mark.system
@pytest.mark.parametrize("way", ["form", "oidc"])
@pytest.mark.parametrize(
    ("policy", "expected"), [("closed", 0), ("invited", 0), ("domains", 0), ("open", 1)]
)
def test_a_way_makes_an_account_where_the_rules_let_its_person_in_alone(
    ways, settings, policy, expected, way
) -> None:
    allow(settings, policy)
    ways[way]()
    assert User.objects.filter(email=OUTSIDE).count() == User.objects.count() == expected


@pytest.mark.parametrize("policy", ["closed", "invited", "domains"])
def test_what_a_provider_said_is_finished_with_no_other_address(
    ways, started, settings, project, policy: str
) -> None:
    """allauth's form for people of a provider takes an address: one that is invited, or of a
    domain, is not theirs.
    """
    allow(settings, policy)
    invited = project.memberships.create(email=f"guest@{LAB}", role=Role.OWNER).email
    before, browser = User.objects.count(), Client()
    started.sign_in(browser, "mallory")
    for email in (OUTSIDE, invited):
        assert ask(browser, "POST", "auth/provider/signup", {"email": email}).status_code in (
            403,
            409,
        )
    assert not is_in(browser) and User.objects.count() == before


def paths_of_accounts() -> list[str]:
    """Each that django-allauth serves."""

    def walk(resolver: URLResolver, before: str = "") -> Iterator[str]:
        for each in resolver.url_patterns:
            path = before + str(each.pattern)
            if isinstance(each, URLPattern):
                yield path
            else:
                yield from walk(each, path)

    return sorted(
        {path.removeprefix(PREFIX) for path in walk(get_resolver()) if path.startswith(PREFIX)}
    )


@pytest.mark.parametrize("policy", ["closed", "invited", "domains"])
def test_no_address_of_allauth_makes_an_account_or_signs_a_stranger_in(
    db, settings: Settings, policy: str
) -> None:
    allow(settings, policy)
    paths = [path for path in paths_of_accounts() if "^" not in path]
    assert len(paths) > 20 and {
        "auth/signup",
        "auth/provider/signup",
        "auth/provider/token",
    } <= set(paths)
    settings.ACCOUNT_RATE_LIMITS = False
    body = NEW | {
        "email": OUTSIDE,
        "username": OUTSIDE,
        "provider": "oidc",
        "process": "login",
        "key": "x",
        "code": "x",
    }
    for path in paths:
        for method in ("POST", "PUT", "PATCH"):
            browser = Client()
            assert ask(browser, method, path, body).status_code in (
                200,
                400,
                401,
                403,
                404,
                405,
                409,
                410,
            ), path
            assert not is_in(browser) and not User.objects.exists(), f"{method} {path}"
    for path in (
        "/accounts/signup/",
        "/accounts/oidc/login/",
        "/signup",
        "/_allauth/app/v1/auth/signup",
    ):
        assert Client().post(path, body, content_type="application/json").status_code in (
            404,
            405,
        ), path
    assert not User.objects.exists()


@pytest.mark.system
def test_an_invitation_makes_no_account_and_is_accepted_by_its_address_alone(
    project: Project, owner: Client
) -> None:
    invited = project.memberships.create(email=f"guest@{LAB}", role=Role.OWNER)
    before = User.objects.count()
    accept = f"/v1/invitations/{invited.member_id}/accept"
    assert Client().post(accept, content_type="application/json").status_code == 401
    assert owner.post(accept, content_type="application/json").status_code == 404
    asked = {"email": OUTSIDE, "role": "viewer"}
    assert owner.post("/v1/members", asked, content_type="application/json").status_code == 201
    assert User.objects.count() == before
    assert set(Membership.objects.filter(user=None).values_list("email", flat=True)) == {
        invited.email,
        OUTSIDE,
    }


@pytest.fixture
def owner(alice: User) -> Client:
    client = Client()
    client.force_login(alice)
    return client
