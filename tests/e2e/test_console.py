"""The console in a real browser against the real server: from sign-up to the first live point and a
download.
"""

import json
import os
import re
import signal
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from e2e.console_pages import (
    PASSWORD,
    Server,
    browser,
    charted_steps,
    create_session,
    make_key,
    open_place,
    page,
    server,
    sign_up,
    sign_up_by_form,
)
from e2e.fake_runtime import WEIGHTS
from playwright.sync_api import Browser, Page, expect

__all__ = ["browser", "page", "server"]

pytestmark = pytest.mark.browser

# The addresses of the channels that the page opens from now on.
LISTEN = """() => {
    window.opened = [];
    window.WebSocket = new Proxy(WebSocket, {
        construct: (made, given) => { window.opened.push(String(given[0])); return new made(...given); },
    });
}"""
WITHIN_S = 90  # of a request beside other work: httpx itself waits for 5 s


@pytest.mark.smoke
def test_a_stranger_gets_from_sign_up_to_the_first_live_point_and_the_tuned_model(
    page: Page, server: Server
) -> None:
    sign_up_by_form(page, "cora@example.org")
    expect(page.get_by_text("No session yet")).to_be_visible()

    secret = make_key(page)
    account = httpx.get(
        f"{server.url}/v1/account", headers={"Authorization": f"Bearer {secret}"}, timeout=WITHIN_S
    ).json()
    assert account["email"] == "cora@example.org"
    expect(page.get_by_test_id("project")).to_have_text(account["projects"][0]["name"])

    session_id = create_session(page, "first run")
    runtime = server.data / "runtimes" / session_id
    expect(page.get_by_text("collecting episodes for step 1").first).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(charted_steps(page)).to_have_attribute("data-steps", "0")

    (runtime / "step-1").touch()
    expect(charted_steps(page)).to_have_attribute("data-steps", "1")
    expect(page.get_by_test_id("policy-version")).to_have_text("1")
    expect(page.get_by_text("adds up", exact=True)).to_be_visible()

    page.get_by_role("button", name="Export model").click()
    open_place(page, "Checkpoints")
    link = page.get_by_role("link", name="model.safetensors").get_attribute("href")
    assert httpx.get(link, timeout=WITHIN_S).content == WEIGHTS

    open_place(page, "Overview")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop session").click()
    expect(page.get_by_role("main").get_by_text("stopped", exact=True).first).to_be_visible()


def test_a_wrong_option_is_shown_at_its_field_and_nothing_is_created(
    page: Page, server: Server
) -> None:
    sign_up(page, "clara@example.org")
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


# Options of the form, with what is typed or chosen, and what the session then has.
FILLED = {
    "Learning rate": ("0.00005", ("learning_rate", 5e-5)),
    "KL coef": ("0.02", ("kl_coef", 0.02)),
    "KL estimator": ("k2", ("kl_estimator", "k2")),
    "Reference decay": ("0.9", ("reference_decay", 0.9)),
    "Keep n": ("4", ("keep_n", 4)),
    "Length penalty": ("0.1", ("length_penalty", 0.1)),
    "Overlong buffer": ("64", ("overlong_buffer", 64)),
    "Entropy target": ("1.5", ("entropy_target", 1.5)),
    "Dynamic sampling": ("yes", ("dynamic_sampling", True)),
    "Call discount": ("0.5", ("call_discount", 0.5)),
    "Engine correction veto": ("0.0001", ("engine_correction.veto", 1e-4)),
}
# What the server alone refuses, and where it then stands.
REFUSED = (
    ("Keep n", "8", "must be below grpo_n"),
    ("Overlong buffer", "512", "must not be above max_tokens"),
    ("LoRA targets", "mlp", "has an effect only with a lora_rank above 0"),
    ("KL stop", "0.1", "has an effect only with minibatches or epochs above 1"),
)


def fill(page: Page, label: str, text: str) -> None:
    field = page.get_by_label(label, exact=True)
    if field.evaluate("it => it.tagName") == "SELECT":
        field.select_option(label=text)
    else:
        field.fill(text)


def test_options_of_the_form_are_sent_and_what_the_server_refuses_stands_at_its_field(
    page: Page, server: Server
) -> None:
    sign_up(page, "flora@example.org")
    page.goto("/sessions/new")
    page.get_by_role("button", name="Advanced options").click()
    for label, text, problem in REFUSED:
        field = page.get_by_label(label, exact=True)
        before = field.input_value()
        fill(page, label, text)
        page.get_by_role("button", name="Check").click()
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_be_focused()
        expect(field).to_have_accessible_description(re.compile(re.escape(problem)))
        fill(page, label, before)
        expect(field).not_to_have_attribute("aria-invalid", "true")
    for label, (text, _) in FILLED.items():
        fill(page, label, text)
    page.get_by_role("button", name="Start session").click()
    page.wait_for_url(re.compile(r"/sessions/ses_\w+$"))
    session_id = page.url.rsplit("/", 1)[1]
    config = page.request.get(f"/v1/sessions/{session_id}").json()["config"]
    for _, (name, value) in FILLED.values():
        option, _, part = name.partition(".")
        assert (config[option][part] if part else config[option]) == value, name


def test_the_page_goes_on_from_where_it_was_when_the_web_server_is_killed(
    page: Page, server: Server
) -> None:
    sign_up(page, "cecil@example.org")
    session_id = create_session(page, "broken line")
    runtime = server.data / "runtimes" / session_id
    expect(page.get_by_text("collecting episodes for step 1").first).to_be_visible()
    (runtime / "step-1").touch()
    expect(charted_steps(page)).to_have_attribute("data-steps", "1")
    asked = {"kind": "metric", "newest": "true", "limit": "1"}
    known = page.request.get(f"/v1/sessions/{session_id}/events", params=asked).json()[
        "next_cursor"
    ]
    page.evaluate(LISTEN)
    place = page.get_by_role("heading", level=1).bounding_box()
    assert place is not None
    for process in (server.data / "run").glob("web*.json"):
        os.kill(json.loads(process.read_text())["pid"], signal.SIGKILL)
    expect(page.get_by_text("Reconnecting…, stale since")).to_be_visible()
    # what is said of it moves nothing
    assert page.get_by_role("heading", level=1).bounding_box() == place
    (runtime / "step-2").touch()
    expect(charted_steps(page)).to_have_attribute("data-steps", "2", timeout=60_000)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    reconnects = page.evaluate("window.opened")
    cursors = [int(parse_qs(urlsplit(url).query)["after"][0]) for url in reconnects]
    assert cursors and min(cursors) >= known > 0, "it asks for what follows the step that it had"
    page.reload()
    expect(charted_steps(page)).to_have_attribute("data-steps", "2")  # none twice, none lost


def test_another_users_session_does_not_exist(page: Page, browser: Browser, server: Server) -> None:
    sign_up(page, "carl@example.org")
    session_id = create_session(page, "private")
    stranger = browser.new_context(base_url=server.url).new_page()
    sign_up(stranger, "eve@example.org")
    stranger.goto(f"/sessions/{session_id}")
    expect(
        stranger.get_by_role("heading", name="There is no such session in your projects")
    ).to_be_visible()
    expect(stranger.get_by_test_id("charts")).to_have_count(0)
    stranger.context.close()


def test_a_sign_in_that_ends_while_somebody_types_is_asked_for_and_the_form_stays(
    page: Page,
) -> None:
    sign_up(page, "ada.types@example.org")
    page.goto("/sessions/new")
    page.get_by_label("Name").fill("typed for an hour")
    page.context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Check").click()
    again = page.get_by_role("dialog", name="Your sign-in has ended")
    again.get_by_label("Password").fill("wrong-password")
    again.get_by_role("button", name="Sign in", exact=True).click()
    expect(again.get_by_role("alert")).to_be_visible()
    again.get_by_label("Password").fill(PASSWORD)
    again.get_by_role("button", name="Sign in", exact=True).click()
    expect(again).to_have_count(0)
    expect(page.get_by_label("Name")).to_have_value("typed for an hour")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("Your sign-in has ended.")).to_have_count(0)


def test_signing_out_ends_it_and_signing_in_leads_back_to_the_page(page: Page) -> None:
    sign_up(page, "celia@example.org")
    page.get_by_role("button", name="celia@example.org").click()
    page.get_by_role("menuitem", name="Sign out").click()
    page.wait_for_url("**/signin")
    page.goto("/keys")
    page.wait_for_url("**/signin?next=%2Fkeys")
    page.get_by_label("E-mail").fill("celia@example.org")
    page.get_by_label("Password").fill("wrong-password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="API keys")).to_be_visible()
