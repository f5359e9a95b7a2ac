"""What a project is sent and what it used, in a real browser: webhooks with their deliveries, usage
beside quotas.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from e2e.console_pages import ROOT, Server, browser, create_session, page, server, sign_up
from e2e.test_console_account import open_account
from playwright.sync_api import Browser, Locator, Page, expect

from support.ports import free_port
from tinkerscript.wire.webhooks import WebhookTopic

__all__ = ["browser", "page", "server"]

pytestmark = pytest.mark.browser

DELIVERED_MS = 60_000


@contextmanager
def receiving(program: str, secret: str, log: Path) -> Iterator[Path]:
    """The program that the console shows, running. What it prints goes to ``log``."""
    with log.open("wb") as output:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "sdk"),
            "WEBHOOK_SECRET": secret,
        }
        process = subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdout=output, stderr=output
        )
        try:
            yield log
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(25)


def open_webhooks(page: Page) -> None:
    page.get_by_role("link", name="Webhooks").click()
    expect(page.get_by_role("heading", name="Webhooks")).to_be_visible()


def create_webhook(page: Page, url: str, *, without: str = "") -> tuple[str, str]:
    """The secret of a new webhook and the program that is shown beside it."""
    page.get_by_role("button", name="New webhook").click()
    page.get_by_label("Address", exact=True).fill(url)
    if without:
        page.get_by_label(without).uncheck()
    page.get_by_role("button", name="Create webhook").click()
    dialog = page.get_by_role("dialog", name="Your new webhook")
    expect(dialog).to_be_visible()
    secret, shell, program = dialog.locator("pre").all_inner_texts()
    assert shell == f"export WEBHOOK_SECRET={secret}"
    page.get_by_role("button", name="Done").click()
    expect(dialog).to_have_count(0)
    return secret, program


def deliveries(page: Page, url: str) -> Locator:
    """The rows under a webhook, which is opened where it is not."""
    entry = page.get_by_role("listitem").filter(
        has=page.get_by_role("button", name=f"Deliveries to {url}", exact=True)
    )
    trigger = entry.get_by_role("button", name=f"Deliveries to {url}", exact=True)
    if trigger.get_attribute("aria-expanded") == "false":
        trigger.click()
    return entry.get_by_role("row")


def test_a_webhook_shows_its_secret_once_gets_the_events_of_a_session_and_is_deleted(
    page: Page, server: Server, tmp_path: Path
) -> None:
    sign_up(page, "paula@example.org")
    open_webhooks(page)
    expect(page.get_by_text("No webhook yet")).to_be_visible()
    port, closed = free_port(), free_port()
    good, bad = f"http://127.0.0.1:{port}/hooks", f"http://127.0.0.1:{closed}/no-one"
    secret, program = create_webhook(page, good, without="A checkpoint fails")
    assert secret.startswith("whsec_")
    assert secret not in page.content()
    assert (
        page.evaluate("Object.keys(localStorage).length + Object.keys(sessionStorage).length") == 0
    )
    topics = sorted(topic for topic in WebhookTopic if topic != WebhookTopic.CHECKPOINT_FAILED)
    expect(page.get_by_text(", ".join(topics), exact=True)).to_be_visible()
    expect(page.get_by_text("Nothing was sent yet.")).to_be_visible()
    create_webhook(page, bad)

    with receiving(program.replace("8080", str(port)), secret, tmp_path / "receiver.log") as log:
        session_id = create_session(page, "reported")
        open_webhooks(page)
        sent = deliveries(page, good).filter(has_text="session.state")
        expect(sent.first).to_contain_text("returned 204", timeout=DELIVERED_MS)
        expect(sent.first).to_contain_text("delivered")
        assert f"'session_id': '{session_id}'" in log.read_text()
    unheard = deliveries(page, bad).filter(has_text="pending").filter(has_text="again")
    expect(unheard.first).to_contain_text(
        re.compile(r"no connection .*, again (in|now)"), timeout=DELIVERED_MS
    )

    page.get_by_role("button", name=f"Delete the webhook to {bad}").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete webhook").click()
    expect(page.get_by_text(bad)).to_have_count(0)
    expect(page.get_by_text(good)).to_be_visible()


def test_an_address_that_is_not_allowed_is_refused_at_its_field(page: Page) -> None:
    sign_up(page, "priya@example.org")
    open_webhooks(page)
    page.get_by_role("button", name="New webhook").click()
    page.get_by_label("Address", exact=True).fill("ftp://example.org")
    page.get_by_role("button", name="Create webhook").click()
    expect(page.get_by_label("Address", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("it must begin with http:// or https://", exact=True)).to_be_visible()
    page.get_by_label("Address", exact=True).fill("https://example.org/hook")
    for topic in page.get_by_role("group", name="Events").get_by_role("checkbox").all():
        topic.uncheck()
    page.get_by_role("button", name="Create webhook").click()
    expect(page.get_by_role("group", name="Events").get_by_role("alert")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("No webhook yet")).to_be_visible()


def test_usage_is_what_the_api_measured_beside_the_quotas(page: Page, server: Server) -> None:
    sign_up(page, "petra@example.org")
    page.get_by_role("link", name="Usage").click()
    expect(page.get_by_text("No session yet")).to_be_visible()
    now = page.get_by_role("region", name="Now")
    expect(now.get_by_text("no limit")).to_have_count(3)

    session_id = create_session(page, "measured")
    expect(page.get_by_text("collecting episodes for step 1").first).to_be_visible()
    (server.data / "runtimes" / session_id / "step-1").touch()
    expect(page.get_by_test_id("policy-version")).to_have_text("1")
    limits = ("--devices", "4", "--sessions", "1", "--storage-gib", "2")
    set_quota(server, page.request.get("/v1/account").json()["projects"][0]["id"], *limits)
    page.get_by_role("link", name="Usage").click()
    row = page.get_by_role("row", name="measured")
    tokens = page.request.get("/v1/usage").json()["items"][0]["tokens_trained"]
    expect(row.get_by_role("cell")).to_contain_text(
        ["SmolLM2-135M-Instruct", re.compile(r"\d+ s"), "0 s", "1", f"{tokens:,}", "just now"]
    )
    expect(now).to_contain_text(re.compile(r"Devices in use\s*1\s*of 4"))
    expect(now).to_contain_text(re.compile(r"Sessions not ended\s*1\s*of 1"))
    expect(now).to_contain_text(re.compile(r"Stored checkpoints\s*0 B\s*of 2\.00 GiB"))
    row.get_by_role("link").click()
    page.wait_for_url(f"**/sessions/{session_id}")


def set_quota(server: Server, project: str, *limits: str) -> None:
    environment = os.environ | {
        "TINKERSCRIPT_DATA": str(server.data),
        "DJANGO_SETTINGS_MODULE": "console.settings",
    }
    subprocess.run(
        [sys.executable, "manage.py", "set_quota", project, *limits],
        cwd=ROOT,
        env=environment,
        check=True,
    )


def test_why_a_run_does_not_start_is_on_its_page(page: Page, server: Server) -> None:
    sign_up(page, "quinn@example.org")
    first = create_session(page, "holds the device")
    project = page.request.get("/v1/account").json()["projects"][0]["id"]
    set_quota(server, project, "--devices", "1")
    create_session(page, "waits")
    main = page.get_by_role("main")
    expect(main.get_by_text(re.compile("^Queued, position"))).to_be_visible()
    expect(main.get_by_text("The project uses 1 of the 1 devices")).to_be_visible()
    expect(main.get_by_role("link", name="Capacity")).to_be_visible()
    main.get_by_role("link", name="holds the device").click()
    page.wait_for_url(f"**/sessions/{first}")
    set_quota(server, project, "--devices", "none")


def test_a_viewer_sees_usage_and_nothing_of_webhooks_that_would_be_refused(
    page: Page, browser: Browser, server: Server
) -> None:
    sign_up(page, "peter@example.org")
    page.get_by_role("link", name="Members").click()
    page.get_by_role("button", name="Invite").click()
    page.get_by_label("E-mail").fill("vera@example.org")
    page.get_by_label("Role", exact=True).select_option("viewer")
    page.get_by_role("button", name="Send invitation").click()
    expect(page.get_by_role("row", name="vera@example.org")).to_be_visible()

    viewer = browser.new_context(base_url=server.url).new_page()
    sign_up(viewer, "vera@example.org")
    open_account(viewer, "vera@example.org")
    viewer.get_by_role("button", name="Accept").click()
    expect(viewer.get_by_role("region", name="Invitations")).to_have_count(0)
    # of the project that is their own
    expect(viewer.get_by_role("link", name="Webhooks")).to_have_count(1)
    viewer.get_by_role("button", name="Project vera").click()
    viewer.get_by_role("menuitemradio", name="peter").click()
    expect(viewer.get_by_test_id("project")).to_have_text("peter")
    viewer.get_by_role("link", name="Usage").click()
    expect(viewer.get_by_role("region", name="All sessions")).to_be_visible()
    expect(viewer.get_by_role("link", name="Webhooks")).to_have_count(0)
    refused = re.compile(
        "^(New session|Serve|Serve a model|Start session|Ask|New rule|Invite|Rename|Revoke.*)$"
    )
    for place in (
        "home",
        "sessions",
        "serving",
        "playground",
        "alert-rules",
        "members",
        "keys",
        "usage",
        "capacity",
    ):
        viewer.goto(f"/{place}")
        expect(viewer.get_by_role("heading", level=1)).to_be_visible()
        for role in ("button", "link"):
            expect(viewer.get_by_role("main").get_by_role(role, name=refused)).to_have_count(0)
    viewer.goto("/sessions/new?from=ses_0")
    expect(viewer.get_by_role("heading", name="Viewers cannot start sessions")).to_be_visible()
    viewer.goto("/webhooks")
    expect(viewer.get_by_role("alert")).to_contain_text("Ask an owner for a role.")
    expect(viewer.get_by_role("button", name="New webhook")).to_have_count(0)
    expect(viewer.get_by_text("No webhook yet")).to_have_count(0)
    viewer.context.close()


def test_no_page_is_wider_than_the_window(page: Page) -> None:
    sign_up(page, "barbara.of.a.long.name.indeed@example.org")
    menu = page.get_by_role("navigation", name="Main", include_hidden=True)
    places = menu.get_by_role("link", include_hidden=True)
    names = places.all_inner_texts()
    assert {"Home", "Compare", "Capacity", "Alert rules"} <= set(names)
    for width in (360, 820, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        for name in names:
            place = places.filter(has_text=re.compile(f"^{name}$"))
            if width < 1024:
                page.get_by_role("button", name="Menu").click()
            place.click()
            expect(place).to_have_attribute("aria-current", "page")
            expect(menu).to_be_visible(visible=width >= 1024)
            expect(page.get_by_text("Loading…")).to_have_count(0)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (width, page.url)


def test_a_rule_of_alerts_is_made_changed_and_deleted(page: Page) -> None:
    sign_up(page, "ruth@example.org")
    page.get_by_role("button", name="Alerts").click()
    page.get_by_role("dialog", name="Alerts").get_by_role("link", name="Alert rules").click()
    expect(page.get_by_text("No rule yet")).to_be_visible()
    page.get_by_role("button", name="New rule").click()
    page.get_by_label("Name").fill("Too low")
    page.get_by_label("Value").fill("a half")
    page.get_by_role("button", name="Create rule").click()
    expect(page.get_by_label("Value")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Value").fill("0.5")
    page.get_by_role("button", name="Create rule").click()
    row = page.get_by_role("row", name="Too low")
    expect(row).to_contain_text("Reward, mean below 0.5 in 5 steps in a row")
    page.get_by_role("button", name="Edit Too low").click()
    page.get_by_label("Value").fill("0.25")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("below 0.25")
    page.get_by_role("button", name="Delete Too low").click()
    page.get_by_role("button", name="Delete rule").click()
    expect(page.get_by_text("No rule yet")).to_be_visible()
