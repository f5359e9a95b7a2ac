"""The console in a real browser against the real server: from sign-up to the first live point and a download."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from e2e.fake_runtime import WEIGHTS
from playwright.sync_api import Browser, Page, expect, sync_playwright

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = Path("/usr/bin/chromium")
BUILT_PAGE = ROOT / "frontend/dist/index.html"
START_DEADLINE_S = 90
PASSWORD = "correct-horse-7"
SWITCHES = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass(frozen=True)
class Server:
    url: str
    data: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("data")) as server:
        yield server


@contextmanager
def serving(data: Path, **settings: str) -> Iterator[Server]:
    """``manage.py up`` over a fresh folder, with runtimes that need no model. Skips where the page cannot be shown."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing: apt-get install chromium")
    if not BUILT_PAGE.exists():
        pytest.skip("frontend/dist is missing: run `npm ci && npm run build` in frontend/")
    (data / "models/SmolLM2-135M-Instruct").mkdir(parents=True)
    port = free_port()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("TINKERSCRIPT_", "S3_"))
    } | {
        "TINKERSCRIPT_DATA": str(data),
        "TINKERSCRIPT_PORT": str(port),
        "TINKERSCRIPT_MAX_RUNTIMES": "4",
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sdk'}",
        "PYTHONUNBUFFERED": "1",
        **settings,
    }
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True, timeout=60)
    leader = start([str(Path(__file__).with_name("lead_with_fake_runtimes.py"))], environment, data / "leader.log")
    up = None
    try:
        wait_for_line(leader, "leading")
        up = start(["manage.py", "up"], environment, data / "up.log")
        wait_for_line(up, "ready")
        yield Server(f"http://127.0.0.1:{port}", data)
    finally:
        for process in filter(None, (leader, up)):
            stop(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(arguments: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[str]:
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True
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
        process.wait(10)
    process.stdout.close()


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """A browser of its own for each test; an error in the page's script fails the test."""
    context = browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 860})
    context.set_default_timeout(15_000)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


def sign_up(page: Page, email: str) -> None:
    page.goto("/")
    page.get_by_role("link", name="Create an account").click()
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()


def create_session(page: Page, name: str) -> str:
    """The id of a new session, made in the form."""
    page.goto("/sessions/new")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Start session").click()
    page.wait_for_url(re.compile(r"/sessions/ses_\w+$"))
    return page.url.rsplit("/", 1)[1]


def charted_steps(page: Page):
    return page.get_by_test_id("charts")


def test_a_stranger_gets_from_sign_up_to_the_first_live_point_and_the_tuned_model(page: Page, server: Server) -> None:
    sign_up(page, "ada@example.org")
    expect(page.get_by_text("No session yet")).to_be_visible()

    secret = make_key(page)
    account = httpx.get(f"{server.url}/v1/account", headers={"Authorization": f"Bearer {secret}"}).json()
    assert account["email"] == "ada@example.org"
    expect(page.get_by_test_id("project")).to_have_text(account["projects"][0]["name"])

    session_id = create_session(page, "first run")
    runtime = server.data / "runtimes" / session_id
    expect(page.get_by_text("collecting episodes for step 1").first).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(charted_steps(page)).to_have_attribute("data-steps", "0")

    (runtime / "step-1").touch()
    expect(charted_steps(page)).to_have_attribute("data-steps", "1", timeout=3_000)
    expect(page.get_by_test_id("policy-version")).to_have_text("1")
    expect(page.get_by_text("balances", exact=True)).to_be_visible()

    page.get_by_role("button", name="Export model").click()
    page.get_by_role("button", name=re.compile("Files of the model checkpoint of step 1")).click()
    link = page.get_by_role("link", name="model.safetensors").get_attribute("href")
    assert httpx.get(link).content == WEIGHTS

    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop session").click()
    expect(page.get_by_text("stopped", exact=True)).to_be_visible(timeout=30_000)


def make_key(page: Page, *, keep_open: bool = False) -> str:
    """The secret of a new key, after looking at how it is shown; ``keep_open`` leaves the dialog that shows it."""
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
    assert page.evaluate("Object.keys(localStorage).length + Object.keys(sessionStorage).length") == 0
    return secret


def test_a_wrong_option_is_shown_at_its_field_and_nothing_is_created(page: Page, server: Server) -> None:
    sign_up(page, "grace@example.org")
    page.goto("/sessions/new")
    page.get_by_label("GRPO n").fill("1")
    page.get_by_role("button", name="Start session").click()
    expect(page.get_by_text("Must be 2 to 256.")).to_be_visible()
    expect(page.get_by_label("GRPO n")).to_be_focused()
    page.get_by_label("GRPO n").fill("4")
    page.get_by_label("Max tokens").fill("4000")
    page.get_by_role("button", name="Start session").click()
    expect(page.get_by_role("alert").filter(has_text="max_context_length").first).to_be_visible()
    page.goto("/sessions")
    expect(page.get_by_text("No session yet")).to_be_visible()


def test_the_page_goes_on_from_where_it_was_when_the_web_server_is_killed(page: Page, server: Server) -> None:
    sign_up(page, "edsger@example.org")
    session_id = create_session(page, "broken line")
    runtime = server.data / "runtimes" / session_id
    expect(page.get_by_text("collecting episodes for step 1").first).to_be_visible()
    (runtime / "step-1").touch()
    expect(charted_steps(page)).to_have_attribute("data-steps", "1")
    reconnects: list[str] = []
    page.on("websocket", lambda socket: reconnects.append(socket.url))
    os.kill(json.loads((server.data / "run/web.json").read_text())["pid"], signal.SIGKILL)
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    (runtime / "step-2").touch()
    expect(charted_steps(page)).to_have_attribute("data-steps", "2", timeout=60_000)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    assert reconnects
    assert all(int(url.partition("after=")[2]) > 0 for url in reconnects)


def test_another_users_session_does_not_exist(page: Page, browser: Browser, server: Server) -> None:
    sign_up(page, "alan@example.org")
    session_id = create_session(page, "private")
    stranger = browser.new_context(base_url=server.url).new_page()
    sign_up(stranger, "eve@example.org")
    stranger.goto(f"/sessions/{session_id}")
    expect(stranger.get_by_role("heading", name="There is no such session in this project")).to_be_visible()
    expect(stranger.get_by_test_id("charts")).to_have_count(0)
    stranger.context.close()


def test_signing_out_ends_it_and_signing_in_leads_back_to_the_page(page: Page) -> None:
    sign_up(page, "barbara@example.org")
    page.get_by_role("button", name="barbara@example.org").click()
    page.get_by_role("menuitem", name="Sign out").click()
    page.wait_for_url("**/signin")
    page.goto("/keys")
    page.wait_for_url("**/signin?next=%2Fkeys")
    page.get_by_label("E-mail").fill("barbara@example.org")
    page.get_by_label("Password").fill("wrong-password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="API keys")).to_be_visible()
