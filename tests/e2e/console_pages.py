"""The console in a browser, for the tests of its pages: a server with fake runtimes, Chromium, the
usual steps.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from support import migrated_database
from support.browsers import browser_need, browser_start, errors_of
from support.chromium import WITHIN_MS
from support.identity_provider import IdentityProvider, identity_provider_start
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
BUILT_PAGE = ROOT / "frontend/dist/index.html"
START_DEADLINE_S = 90
PASSWORD = "correct-horse-7"


def pages_need() -> None:
    """Skip where no page can be shown."""
    browser_need()
    if not BUILT_PAGE.exists():
        pytest.skip("frontend/dist is missing: run requirements/install.sh frontend")


@dataclass(frozen=True)
class Server:
    url: str
    data: Path
    provider: IdentityProvider | None = None


@pytest.fixture(scope="module")
def server(console_server: Server) -> Server:
    """The one server of these tests. Each test signs up with an address of its own."""
    return console_server


@contextmanager
def serving(data: Path) -> Iterator[Server]:
    """``manage.py up`` over a fresh folder, with runtimes that need no model. Skips where the page
    cannot be shown.

    An address is taken at its word, and a webhook may lead to this machine.
    """
    pages_need()
    (data / "models/SmolLM2-135M-Instruct").mkdir(parents=True)
    migrated_database.for_server(data)
    port = free_port()
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TINKERSCRIPT_", "S3_"))
    } | {
        "TINKERSCRIPT_DATA": str(data),
        "TINKERSCRIPT_PORT": str(port),
        "TINKERSCRIPT_WARM": "0",  # its runtimes are scripts of these tests
        "TINKERSCRIPT_MAX_RUNTIMES": "8",  # some tests leave a session running
        "TINKERSCRIPT_EMAIL_VERIFICATION": "none",
        "TINKERSCRIPT_WEBHOOKS_PRIVATE": "1",
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sdk'}",
        "PYTHONUNBUFFERED": "1",
    }
    url = f"http://127.0.0.1:{port}"
    with identity_provider_start(url) as provider:
        environment |= {
            "TINKERSCRIPT_OIDC_ISSUER": provider.issuer,
            "TINKERSCRIPT_OIDC_CLIENT_ID": provider.client_id,
            "TINKERSCRIPT_OIDC_CLIENT_SECRET": provider.client_secret,
            "TINKERSCRIPT_OIDC_OPTIONS": "name=Example Lab",
        }
        yield from _serving(data, port, environment, provider)


def _serving(
    data: Path, port: int, environment: dict[str, str], provider: IdentityProvider
) -> Iterator[Server]:
    leader = start(
        [str(Path(__file__).with_name("lead_with_fake_runtimes.py"))],
        environment,
        data / "leader.log",
    )
    up = None
    try:
        wait_for_line(leader, "leading")
        up = start(["manage.py", "up"], environment, data / "up.log")
        wait_for_line(up, "ready")
        yield Server(f"http://127.0.0.1:{port}", data, provider)
    finally:
        for process in filter(None, (leader, up)):
            stop(process)


def start(arguments: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[str]:
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )


def wait_for_line(process: subprocess.Popen[str], start_of_line: str) -> None:
    """Fails when the process ends, or says nothing of the kind within the deadline."""
    timer = threading.Timer(START_DEADLINE_S, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            if line.startswith(start_of_line):
                return
    finally:
        timer.cancel()
    pytest.fail(f"{process.args} ended before it said {start_of_line!r}")


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(25)
    process.stdout.close()


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = browser_start(playwright)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """A browser of its own for each test; an error in the page's script fails the test."""
    context = browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 860})
    context.set_default_timeout(WITHIN_MS)
    page = context.new_page()
    errors = errors_of(page)
    yield page
    context.close()
    assert errors == [], errors


def sign_up(page: Page, email: str) -> None:
    """A new account that is signed in, on its first page. By the form's request: that loads one
    page less.
    """
    page.request.get("/signin")
    (token,) = (
        cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "csrftoken"
    )
    made = page.request.post(
        "/_allauth/browser/v1/auth/signup",
        data={"email": email, "password": PASSWORD},
        headers={"X-CSRFToken": token},
    )
    assert made.ok, made.text()
    page.goto("/")
    expect(page.get_by_role("heading", name="Home")).to_be_visible()


def sign_up_by_form(page: Page, email: str) -> None:
    """The same as a person does it."""
    page.goto("/")
    page.get_by_role("link", name="Create an account").click()
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", name="Home")).to_be_visible()


def create_session(page: Page, name: str) -> str:
    """The id of a new session, made in the form."""
    page.goto("/sessions/new")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Start session").click()
    page.wait_for_url(re.compile(r"/sessions/ses_\w+$"))
    return page.url.rsplit("/", 1)[1]


def open_place(page: Page, name: str) -> None:
    """A page of the run that is open, by the menu."""
    page.get_by_role("navigation", name="Pages of the run").get_by_role(
        "link", name=name, exact=True
    ).click()


def charted_steps(page: Page):
    return page.get_by_test_id("charts")


def make_key(page: Page, *, keep_open: bool = False) -> str:
    """The secret of a new key, after looking at how it is shown; ``keep_open`` leaves the dialog
    that shows it.
    """
    page.get_by_role("link", name="API keys").click()
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("dialog", name="Your new key")).to_be_visible()
    shell, program = page.get_by_role("dialog").locator("pre").all_inner_texts()[1:]
    secret = re.search(r"TINKERSCRIPT_API_KEY=(\S+)", shell)[1]
    compile(program, "train.py", "exec")
    assert page.get_by_role("dialog").locator("pre").first.inner_text() == secret
    if keep_open:
        return secret
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_role("row", name="laptop")).to_be_visible()
    assert secret not in page.content()
    assert (
        page.evaluate("Object.keys(localStorage).length + Object.keys(sessionStorage).length") == 0
    )
    return secret
