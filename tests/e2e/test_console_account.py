"""The account in a real browser: a second factor, an invitation, another project, a key with
limits, the end.
"""

import re
import sqlite3
import subprocess
import time
from contextlib import closing
from urllib.parse import parse_qs, unquote, urlsplit

import cv2
import httpx
import numpy as np
import pytest
from allauth.account import app_settings
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.core import signing
from e2e.console_pages import PASSWORD, Server, browser, page, server, sign_up
from playwright.sync_api import Browser, Page, expect

__all__ = ["browser", "page", "server"]

pytestmark = pytest.mark.browser


def code_of(secret: str, *, later: int = 0) -> str:
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + later))


def open_account(page: Page, email: str) -> None:
    page.get_by_role("button", name=email).click()
    page.get_by_role("menuitem", name="Account").click()
    expect(page.get_by_role("heading", name="Account", exact=True)).to_be_visible()


def sign_in(page: Page, email: str) -> None:
    page.goto("/signin")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_a_second_factor_is_switched_on_asked_for_and_signed_out_of_everywhere(page: Page) -> None:
    sign_up(page, "ada@example.org")
    open_account(page, "ada@example.org")
    factor = page.get_by_role("region", name="Second factor")
    factor.get_by_role("button", name="Switch on").click()
    secret = factor.locator("pre").inner_text()
    factor.get_by_label("Code that the app shows").fill("000000")
    factor.get_by_label("Your password").fill(PASSWORD)
    factor.get_by_role("button", name="Confirm").click()
    expect(factor.get_by_role("alert").first).to_be_visible()
    factor.get_by_label("Code that the app shows").fill(code_of(secret))
    factor.get_by_role("button", name="Confirm").click()
    expect(factor.get_by_text("It is on.")).to_be_visible()
    assert len(factor.locator("pre").first.inner_text().split()) == 10

    page.get_by_role("button", name="Sign out everywhere").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Sign out everywhere").click()
    page.wait_for_url("**/signin")

    sign_in(page, "ada@example.org")
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    page.get_by_label("Code").fill(code_of(secret, later=1))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Home")).to_be_visible()
    open_account(page, "ada@example.org")
    entries = page.get_by_role("region", name="Recent sign-ins and changes").get_by_role("listitem")
    expect(entries.first).to_contain_text(re.compile(r"^sign in.*Chrome.*127\.0\.0\.1"))
    expect(entries.filter(has_text="second factor add")).to_have_count(2)  # and its recovery codes


def mailed_key(server: Server, email: str) -> str:
    """Of the link that confirms the address: nobody mails it here."""
    with closing(
        sqlite3.connect(f"file:{server.data / 'console.sqlite3'}?mode=ro", uri=True)
    ) as rows:
        (number,) = rows.execute(
            "SELECT id FROM account_emailaddress WHERE email = ?", [email]
        ).fetchone()
    secret, *_ = (server.data / "secret_key").read_text().split()
    return signing.dumps(number, key=secret, salt=app_settings.SALT)


def test_an_address_is_confirmed_in_another_browser_by_the_accounts_password(
    page: Page, browser: Browser, server: Server
) -> None:
    sign_up(page, "ida@example.org")
    other = browser.new_context(base_url=server.url).new_page()
    other.goto(f"/verify-email/{mailed_key(server, 'ida@example.org')}")
    other.get_by_role("button", name="Confirm").click()
    expect(other.get_by_text("If you have made no account, somebody else has")).to_be_visible()
    expect(other.get_by_role("link", name="Set a password by mail")).to_be_visible()
    for password in ("a wrong passphrase", PASSWORD):
        other.get_by_label("Password of the account").fill(password)
        other.get_by_role("button", name="Confirm").click()
    expect(other.get_by_text("Your address is confirmed.")).to_be_visible()
    other.goto("/verify-email/not-a-key")
    other.get_by_role("button", name="Confirm").click()
    expect(other.get_by_text("This link is not valid any more.")).to_be_visible()
    other.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_a_camera_reads_from_the_qr_code_is_the_secret_and_it_goes_nowhere(
    page: Page, server: Server, scheme: str
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme=scheme)
    sign_up(page, f"{scheme}@example.org")
    open_account(page, f"{scheme}@example.org")
    factor = page.get_by_role("region", name="Second factor")
    factor.get_by_role("button", name="Switch on").click()
    picture = factor.get_by_role("img", name="QR code of the secret").screenshot()
    read, *_ = cv2.QRCodeDetectorAruco().detectAndDecode(
        cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR)
    )
    uri = urlsplit(read)
    secret = factor.locator("pre").inner_text()
    assert (uri.scheme, uri.netloc) == ("otpauth", "totp")
    asks = parse_qs(uri.query)
    assert (unquote(uri.path), asks["issuer"], asks["secret"]) == (
        f"/{scheme}@example.org",
        ["TinkerScript"],
        [secret],
    )
    assert all(url.startswith(f"{server.url}/") and secret not in url for url in asked)


def test_an_invited_person_accepts_works_in_the_project_and_comes_back(
    page: Page, browser: Browser, server: Server
) -> None:
    sign_up(page, "grace@example.org")
    page.get_by_role("link", name="Members").click()
    page.get_by_role("button", name="Invite").click()
    page.get_by_label("E-mail").fill("alan@example.org")
    page.get_by_label("Role", exact=True).select_option("viewer")
    page.get_by_role("button", name="Send invitation").click()
    expect(page.get_by_role("row", name="alan@example.org").get_by_text("invited")).to_be_visible()

    guest = browser.new_context(base_url=server.url).new_page()
    sign_up(guest, "alan@example.org")
    expect(guest.get_by_text("You are invited to the project grace as viewer.")).to_be_visible()
    guest.get_by_role("link", name="Accept or decline on your account page").click()
    guest.get_by_role("button", name="Accept").click()
    expect(guest.get_by_role("region", name="Invitations")).to_have_count(0)
    guest.get_by_role("link", name="Home", exact=True).click()
    expect(guest.get_by_role("heading", name="Home")).to_be_visible()
    expect(guest.get_by_text("You are invited")).to_have_count(0)
    guest.get_by_role("button", name="Project alan").click()
    guest.get_by_role("menuitemradio", name="grace").click()
    expect(guest.get_by_test_id("project")).to_have_text("grace")
    guest.get_by_role("link", name="Members").click()
    expect(guest.get_by_role("row", name="grace@example.org")).to_be_visible()
    expect(guest.get_by_role("button", name="Invite")).to_have_count(0)
    expect(guest.get_by_role("link", name="Audit log")).to_have_count(0)

    page.reload()
    page.get_by_role("button", name="Remove alan@example.org").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("row", name="alan@example.org")).to_have_count(0)
    page.get_by_role("link", name="Audit log").click()
    for action in ("member invite", "invitation accept", "member remove"):
        expect(page.get_by_role("rowheader", name=action, exact=True)).to_be_visible()
    # the choice that is no longer theirs does not keep them out of their own
    guest.goto("/sessions")
    expect(guest.get_by_test_id("project")).to_have_text("alan")
    expect(guest.get_by_text("No session yet")).to_be_visible()
    guest.context.close()


def test_a_key_is_made_with_limits_and_shows_them(page: Page, server: Server) -> None:
    sign_up(page, "edsger@example.org")
    page.get_by_role("link", name="API keys").click()
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("lab")
    page.get_by_label("Play episodes").uncheck()
    page.get_by_label("Expires").select_option("30")
    page.get_by_label("SmolLM2-135M-Instruct").check()
    page.get_by_label("Spending cap").fill("1.5")
    page.get_by_role("button", name="Create key").click()
    secret = page.get_by_role("dialog").locator("pre").first.inner_text()
    check_programs(page, server.url, secret)
    page.get_by_role("button", name="Done").click()
    row = page.get_by_role("row", name="lab")
    expect(row).to_contain_text("only SmolLM2-135M-Instruct")
    expect(row).to_contain_text("0 s of 1 h 30 min")
    expect(row).to_contain_text("until")
    headers = {"Authorization": f"Bearer {secret}"}
    refused = httpx.post(
        f"{server.url}/v1/sessions", json={"base_model": "another"}, headers=headers, timeout=90
    )
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")


def check_programs(page: Page, url: str, secret: str) -> None:
    """Of each client: the variables with this server's address and the key, and a program that can
    be read.
    """
    ours = (f"TINKERSCRIPT_BASE_URL={url}", f"TINKERSCRIPT_API_KEY={secret}")
    said = {
        "OpenAI client": (*ours, "Copy train.py"), "curl": (*ours, "Copy train.sh"),
        "Tinker client": (f"TINKER_BASE_URL={url}", f"TINKER_API_KEY={secret}", "Copy program"),
    }  # fmt: skip
    for client, (*variables, button) in said.items():
        page.get_by_role("tab", name=client).click()
        shell, program = page.get_by_role("tabpanel").locator("pre").all_inner_texts()
        assert all(f"export {variable}" in shell.splitlines() for variable in variables), shell
        expect(page.get_by_role("button", name=button)).to_be_visible()
        if client == "curl":
            subprocess.run(["bash", "-n"], input=program, text=True, check=True)
        else:
            compile(program, "train.py", "exec")


def test_a_forgotten_password_leads_to_the_mail(page: Page) -> None:
    page.goto("/signin")
    page.get_by_role("link", name="Forgotten your password?").click()
    page.get_by_label("E-mail").fill("nobody@example.org")
    page.get_by_role("button", name="Send a link").click()
    expect(page.get_by_text("Look into your mail.")).to_be_visible()
    page.goto("/reset-password/1-not-a-key")
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("End my API keys").check()
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_text("This link is not valid any more.")).to_be_visible()


def test_the_identity_provider_is_a_way_in_and_a_refusal_says_why(
    page: Page, server: Server
) -> None:
    server.provider.person_set("ivy", email="ivy@example.org", email_verified=True)
    server.provider.person_set("mallory", email="ada@example.org", email_verified=False)

    def come(sub: str) -> None:
        page.goto("/signin?next=%2Fkeys")
        page.get_by_role("button", name="Continue with Example Lab").click()
        page.locator("input[name=sub]").fill(sub)
        page.locator("input[name=sub]").press("Enter")

    come("mallory")
    expect(page.get_by_text("has not confirmed your e-mail address")).to_be_visible()
    come("ivy")
    expect(page).to_have_url(re.compile(r"/keys$"))
    expect(page.get_by_role("button", name="ivy@example.org")).to_be_visible()
