"""Sign-in with a SAML provider: by real responses, and by those that somebody forged, changed, kept or was sent."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.contrib.sessions.models import Session as SessionRow
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from pytest_django import Settings
from saml2.assertion import Policy
from saml2.saml import NAMEID_FORMAT_EMAILADDRESS, NAMEID_FORMAT_PERSISTENT, NAMEID_FORMAT_TRANSIENT, Conditions, NameID
from saml2.time_util import a_while_ago, in_a_while
from saml2.xmldsig import DIGEST_SHA1, SIG_RSA_SHA1

from console.config.group_roles import GroupRole
from console.config.saml import Saml, identity_provider_parse, saml_provider, saml_read
from console.config.sign_up import SignUp
from console.settings import PUBLIC_URL
from console.users.models import Membership, Project, User
from console.users.providers.sign_in import SIGN_IN, person_key
from support.saml_provider import ACS, BEGIN, SamlProvider, decoded, encoded, replaced, saml_provider_start
from support.signing_in import is_in
from tinkerscript.wire.account import Role

NINA = "nina@lab.example.org"
ENTITY_ID = f"{PUBLIC_URL}/sign-in/saml/metadata"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory):
    with saml_provider_start(tmp_path_factory.mktemp("saml"), PUBLIC_URL) as provider:
        provider.person_set("nina", mail=NINA)
        yield provider


@pytest.fixture
def provider(started: SamlProvider, settings: Settings, db: None) -> SamlProvider:
    use(settings, started)
    return started


def use(settings: Settings, provider: SamlProvider, policy: str = "open", /, **changes: Any) -> None:
    known = identity_provider_parse(provider.metadata())
    saml = Saml("", known, "Lab", ENTITY_ID, frozenset({"lab.example.org"}), "groups", ())
    settings.SAML = replace(saml, **changes)
    settings.SOCIALACCOUNT_PROVIDERS = saml_provider(settings.SAML)
    settings.SIGN_UP = SignUp(policy, frozenset(), "mandatory")
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"


def come(provider: SamlProvider, name: str = "nina", *arguments: Any, **changes: Any) -> tuple[Client, str]:
    browser = Client()
    return browser, provider.sign_in(browser, name, *arguments, **changes).headers["Location"]


@pytest.fixture
def refused(provider: SamlProvider, caplog: pytest.LogCaptureFixture) -> Callable[..., None]:
    """A function: a person comes so, is refused for a reason with these words in it, and leaves nothing."""

    def check(why: str, *arguments: Any, **changes: Any) -> None:
        browser, location = come(provider, "nina", *arguments, **changes)
        assert location == "/signin/done?error=response_refused" and why in caplog.text
        assert not is_in(browser) and not User.objects.exists()

    return check


# -- Whose account -----------------------------------------------------------------------------------------------------


def test_a_person_gets_an_account_and_finds_it_again_by_the_providers_id(provider: SamlProvider) -> None:
    browser, location = come(provider)
    assert location == "/signin/done" and is_in(browser)
    user = User.objects.get(email=NINA)
    assert EmailAddress.objects.get(user=user).verified and Membership.objects.get(user=user).role == Role.OWNER
    assert browser.cookies["sessionid"]["max-age"] == pytest.approx(SIGN_IN.total_seconds(), abs=5)
    provider.person_set("married", name_id=provider.people["nina"][1], mail="new@lab.example.org")
    again, _ = come(provider, "married", sign_response=True, sign_assertion=False)
    assert again.get("/v1/account").json()["email"] == NINA
    link = SocialAccount.objects.get()
    assert (link.provider, link.uid) == ("saml", person_key(f"{provider.url}/metadata", "id-of-nina"))


def test_another_provider_gives_nobody_an_account_by_its_id_of_a_person(provider, settings, tmp_path: Path) -> None:
    """The operator has changed the provider: the new one knows another person by the same id, and Nina by another."""
    come(provider)
    with saml_provider_start(tmp_path, PUBLIC_URL) as other:
        use(settings, other)
        other.person_set("mallory", name_id=provider.people["nina"][1], mail="mallory@lab.example.org")
        browser, _ = come(other, "mallory")
        assert browser.get("/v1/account").json()["email"] == "mallory@lab.example.org"
        other.person_set("nina", name_id=NameID(format=NAMEID_FORMAT_PERSISTENT, text="7"), mail=NINA)
        browser, _ = come(other)
        assert browser.get("/v1/account").json()["email"] == NINA, "the trusted address leads to her account"


def test_an_address_of_a_domain_that_is_not_trusted_leads_to_no_account(provider: SamlProvider, alice: User) -> None:
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    provider.person_set("mallory", mail=alice.email)
    provider.person_set("denied", mail=NINA, email_verified="false")
    for name in ("mallory", "denied"):
        browser, location = come(provider, name)
        assert location.startswith("/signin/done?error=unconfirmed_address") and not is_in(browser)
    assert User.objects.count() == 1 and not SocialAccount.objects.exists()


def test_the_address_may_be_the_name_id_and_a_transient_one_is_nobody(provider: SamlProvider) -> None:
    provider.person_set("ivy", name_id=NameID(format=NAMEID_FORMAT_EMAILADDRESS, text="ivy@lab.example.org"))
    browser, _ = come(provider, "ivy")
    assert browser.get("/v1/account").json()["email"] == "ivy@lab.example.org"
    provider.person_set("ghost", name_id=NameID(format=NAMEID_FORMAT_TRANSIENT, text="x"), mail=NINA)
    assert come(provider, "ghost")[1].endswith("response_refused")


def test_groups_give_and_take_roles_and_let_the_invited_in(provider, settings: Settings, project: Project) -> None:
    use(settings, provider, "invited", roles=(GroupRole("ml", project.id, Role.MEMBER),))

    def role_with(**attributes: Any) -> str | None:
        provider.person_set("nina", mail=NINA, **attributes)
        come(provider)
        member = Membership.objects.filter(project=project, user__email=NINA).first()
        return member.role if member else None

    try:
        assert role_with(groups=["sales"]) is None and not User.objects.filter(email=NINA).exists()
        assert role_with(groups=["sales", "ml"]) == Role.MEMBER
        assert role_with() == Role.MEMBER  # the provider does not say
        assert role_with(groups=["sales"]) is None
    finally:
        provider.person_set("nina", mail=NINA)


# -- Responses that prove nothing --------------------------------------------------------------------------------------

WRONG, NONE = "Signature validation failed", "No Signature found"
CHANGES: dict[str, tuple[Callable[[str], str], str]] = {
    "another person's address": (replaced(NINA, "root@lab.example.org"), WRONG),
    "another person's id": (replaced("id-of-nina", "id-of-root"), WRONG),
    "no signature": (replaced(r"<ns\d:Signature .*?</ns\d:Signature>", ""), NONE),
    "a document type": (
        lambda response: encoded("<!DOCTYPE x>" + decoded(response)),
        "DTDForbidden",
    ),
    "no XML": (lambda _: encoded("<Response"), "a SAML response was refused"),
    "no base64": (lambda _: "%%%", "a SAML response was refused"),
    "nothing": (lambda _: "", "a SAML response was refused"),
    "an empty status": (
        lambda response: encoded(re.sub(r'<(ns\d:StatusCode) Value="[^"]*"', r"<\1", decoded(response))),
        "a SAML response was refused",
    ),
    "a signature of nothing": (
        lambda response: encoded(re.sub(r'(Reference) URI="[^"]*"', r"\1", decoded(response))),
        "a SAML response was refused",
    ),
}


@pytest.mark.parametrize(("change", "why"), CHANGES.values(), ids=CHANGES.keys())
def test_a_response_that_was_changed_or_never_signed_is_refused(
    refused, change: Callable[[str], str], why: str
) -> None:
    refused(why, change)


def test_a_response_without_a_strong_signature_is_refused(refused: Callable[..., None]) -> None:
    refused(NONE, sign_assertion=False)
    refused("Deprecated signature algorithm", sign_alg=SIG_RSA_SHA1)
    refused("Deprecated digest algorithm", digest_alg=DIGEST_SHA1)


def test_a_forged_assertion_beside_the_signed_one_is_not_read(refused: Callable[..., None]) -> None:
    """Signature wrapping: the signed assertion is there, and genuine, and another one is in its place."""

    def wrap(response: str, *, inside: bool) -> str:
        before, start, rest = decoded(response).partition("<ns1:Assertion")
        body, end, after = rest.partition("</ns1:Assertion>")
        genuine = start + body + end
        forged = re.sub("<ns2:Signature .*?</ns2:Signature>", "", genuine.replace(NINA, "root@lab.example.org"))
        forged = forged.replace(' ID="', ' ID="forged-')
        if inside:
            forged, genuine = forged.replace(end, f"<ns1:Advice>{genuine}</ns1:Advice>{end}"), ""
        return encoded(before + forged + genuine + after)

    refused("must contain 1 assertion", lambda response: wrap(response, inside=False))
    refused("a SAML response was refused", lambda response: wrap(response, inside=True))


def test_a_comment_in_a_signed_value_cuts_nothing_off(provider: SamlProvider) -> None:
    """A comment is not signed: whoever has an address or id that begins as another's could cut their own short."""
    come(provider)
    long_id = NameID(format=NAMEID_FORMAT_PERSISTENT, text="id-of-nina.evil")
    provider.person_set("address", mail=f"{NINA}.evil.example")
    provider.person_set("id", mail="mallory@lab.example.org", name_id=long_id)

    def come_cut(name: str, value: str) -> tuple[Client, str]:
        return come(provider, name, replaced(rf"{re.escape(value)}\.evil", f"{value}<!-- -->.evil"))

    browser, location = come_cut("address", NINA)
    assert location.startswith("/signin/done?error=unconfirmed_address") and not is_in(browser)
    browser, _ = come_cut("id", "id-of-nina")
    assert browser.get("/v1/account").json()["email"] == "mallory@lab.example.org"
    known = {link.extra_data["person_id"] for link in SocialAccount.objects.all()}
    assert known == {"id-of-nina", "id-of-nina.evil"}


def test_anothers_key_signs_nothing(refused, provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with saml_provider_start(tmp_path, PUBLIC_URL) as forger:
        for name in ("key_file", "cert_file"):
            monkeypatch.setattr(provider.server.sec, name, str(tmp_path / f"{name.partition('_')[0]}.pem"))
        assert forger.server.sec.key_file == provider.server.sec.key_file
        refused(WRONG)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sp_entity_id": "https://other.example.org/metadata"}, "not a valid audience"),
        ({"destination": "https://other.example.org/acs"}, "instead of https://other.example.org/acs"),
        ({"destination": f"{PUBLIC_URL}{ACS}/more"}, "no answer to a request of ours"),
        ({"in_response_to": None}, "no answer to a request of ours"),
        ({"in_response_to": "id-of-another-request"}, "this browser has not asked for it"),
    ],
)
def test_what_was_said_to_another_or_unasked_is_refused(refused, changes: dict[str, Any], why: str) -> None:
    refused(why, **changes)


def test_an_assertion_put_into_the_answer_to_another_request_is_refused(provider, caplog) -> None:
    """The envelope is not signed: whoever has somebody's assertion can put it into one of their own."""
    browser = Client()
    kept = provider.response(Client().post(BEGIN).json()["location"], "nina")
    own = re.search(
        r'InResponseTo="([^"]+)"', decoded(provider.response(browser.post(BEGIN).json()["location"], "nina"))
    )
    changed = re.sub(r'InResponseTo="[^"]+"', own[0], decoded(kept), count=1)
    assert provider.post(browser, encoded(changed)).headers["Location"].endswith("refused") and not is_in(browser)
    assert "A valid SubjectConfirmation was not found" in caplog.text


def test_an_assertion_for_everybody_is_for_nobody(refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "conditions", lambda *_: Conditions(not_on_or_after=in_a_while(days=1)))
    refused("it names no audience")


def test_an_old_response_is_refused(refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "not_on_or_after", lambda *_: a_while_ago(days=1))
    refused("expired")


# -- The way there and back --------------------------------------------------------------------------------------------


def test_a_response_is_taken_once_and_in_the_browser_that_asked(provider: SamlProvider) -> None:
    browser = Client()
    response = provider.response(browser.post(BEGIN).json()["location"], "nina")
    thief = Client()
    thief.post(BEGIN)
    assert provider.post(thief, response).headers["Location"].endswith("refused") and not is_in(thief)
    assert provider.post(browser, response).headers["Location"] == "/signin/done" and is_in(browser)
    browser.post("/sign-out")  # whatever the browser does then
    assert provider.post(browser, response).headers["Location"].endswith("refused")
    assert Client().get("/sign-in/saml/finish").headers["Location"].endswith("refused")


def test_relay_state_leads_nowhere(provider: SamlProvider) -> None:
    browser = Client()
    response = provider.response(browser.post("/sign-in/saml/begin?next=//evil.example/").json()["location"], "nina")
    sent = provider.post(browser, response, RelayState="https://evil.example/")
    assert sent.headers["Location"] == "/" and is_in(browser)


def test_what_a_stranger_posts_is_not_kept_and_is_limited(provider: SamlProvider) -> None:
    stranger = Client()
    for _ in range(60):
        assert stranger.post(ACS, {"SAMLResponse": "x" * 50_000}).status_code == 302
    assert stranger.post(ACS, {"SAMLResponse": "x"}).status_code == 429
    assert not SessionRow.objects.exists()


def test_the_provider_is_given_metadata_and_both_ways_exist_only_with_one(provider, settings: Settings) -> None:
    given = Client(HTTP_HOST="evil.example").get("/sign-in/saml/metadata").content.decode()
    assert f'entityID="{ENTITY_ID}"' in given and f'Location="{PUBLIC_URL}{ACS}"' in given and "evil" not in given
    settings.SAML = None
    browser = Client()
    assert {browser.post(BEGIN).status_code, browser.post(ACS).status_code} == {404}
    assert {browser.get(f"/sign-in/saml/{name}").status_code for name in ("finish", "metadata")} == {404}


def test_metadata_come_from_the_provider_and_are_asked_for_once_an_hour(provider, settings: Settings) -> None:
    use(settings, provider, provider={}, metadata_url=f"{provider.url}/metadata")
    cache.clear()
    before = provider.metadata_asked
    assert is_in(come(provider)[0]) and is_in(come(provider)[0])
    assert provider.metadata_asked == before + 1
    use(settings, provider, provider={}, metadata_url="http://127.0.0.1:9/metadata")
    assert Client().post(BEGIN).status_code == 503
    assert Client().get("/sign-in/saml/metadata").status_code == 200, "ours need nothing of the provider's"


# -- Settings ----------------------------------------------------------------------------------------------------------


def test_settings_are_read_from_a_file_of_metadata(started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "provider.xml"
    file.write_bytes(started.metadata())

    def read(**values: str) -> Saml | None:
        for name, value in values.items():
            monkeypatch.setenv(f"TINKERSCRIPT_SAML_{name}", value)
        return saml_read("https://train.example.org")

    assert read() is None
    saml = read(METADATA=str(file), TRUSTED_DOMAINS="lab.example.org", ROLES="cn=ml=prj_1:member")
    assert saml.provider["entityId"] == f"{started.url}/metadata" and saml.name == "localhost"
    assert saml.entity_id == "https://train.example.org/sign-in/saml/metadata" and saml.groups_claim == "groups"
    assert saml.roles == (GroupRole("cn=ml", "prj_1", Role.MEMBER),)
    wanted = file.read_text()
    unsigned = wanted.replace("IDPSSODescriptor ", 'IDPSSODescriptor WantAuthnRequestsSigned="true" ', 1)
    nowhere = wanted.replace(f'Location="{started.url}/sso"', 'Location="/sso"')
    no_certificate = re.sub("(X509Certificate>)[^<]+", r"\1bm90aGluZw==", wanted)
    damaged = re.sub("(X509Certificate>)[^<]+", r"\1%%%", wanted)
    assert wanted not in (nowhere, no_certificate, damaged)
    for text in (
        "<nothing/>", "no XML", wanted.replace("X509Certificate", "X509Other"), unsigned, nowhere, no_certificate,
        damaged,
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(ImproperlyConfigured):
            read()
    for values in ({"METADATA": "http://id.example.org/"}, {"METADATA": "/nothing"}, {"METADATA": ""}):
        with pytest.raises(ImproperlyConfigured):
            read(**values)
    with pytest.raises(ImproperlyConfigured, match="TRUSTED_DOMAINS"):
        read(METADATA="https://id.example.org/", TRUSTED_DOMAINS="")
