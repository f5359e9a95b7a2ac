"""A model is served and asked in a real browser, by a real gateway with a fake engine."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from e2e.console_pages import Server, browser, create_session, open_place, page, pages_need, sign_up
from e2e.loop_server import BASE_MODEL, LoopServer, until
from playwright.sync_api import Page, expect

__all__ = ["browser", "page"]

pytestmark = pytest.mark.browser

RUNTIME_MS = 60_000
SCREENSHOTS = os.environ.get("CONSOLE_SCREENSHOTS")  # a folder: what the pages looked like


@pytest.fixture(scope="module")
def server(loop_server: LoopServer) -> Iterator[Server]:
    """The server of the loop's tests, whose runtimes have a real gateway. Skips where no page can
    be shown.
    """
    pages_need()
    yield Server(loop_server.url, loop_server.data)


def photograph(page: Page, name: str) -> None:
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", full_page=True)


def choose_endpoint(page: Page, base_url: str, key: str) -> None:
    page.get_by_role("combobox", name="Model 1").select_option("endpoint")
    page.get_by_label("Base URL").fill(base_url)
    page.get_by_label("Model", exact=True).fill(BASE_MODEL)
    page.get_by_label("Key").fill(key)


def ask(page: Page, prompt: str) -> None:
    page.get_by_label("Prompt", exact=True).fill(prompt)
    page.get_by_role("button", name="Ask").click()


def test_a_base_model_is_served_and_two_columns_answer_in_the_colours_of_their_tokens(
    page: Page, server: Server
) -> None:
    sign_up(page, "pia@example.org")
    page.get_by_role("link", name="Serving").click()
    expect(page.get_by_text("No model is served")).to_be_visible()
    page.get_by_label("Base model", exact=True).select_option(BASE_MODEL)
    page.get_by_role("button", name="Serve", exact=True).click()
    page.wait_for_url(re.compile(r"/sessions/ses_\w+$"))
    session_id = page.url.rsplit("/", 1)[1]
    expect(page.get_by_text("waiting for calls").first).to_be_visible(timeout=RUNTIME_MS)
    page.get_by_role("button", name="New key").click()
    shown = page.get_by_text(re.compile("TINKERSCRIPT_CALL_KEY=tml-ep-")).inner_text()
    key = shown.partition("=")[2]
    listed = httpx.get(
        f"{server.url}/openai/v1/models", headers={"Authorization": f"Bearer {key}"}, timeout=30
    )
    assert [model["id"] for model in listed.json()["data"]] == [BASE_MODEL, session_id]
    photograph(page, "served-session")

    page.get_by_role("link", name="Open in playground").click()
    page.get_by_label("Temperature", exact=True).fill("0")
    ask(page, "Tell me about rain.")
    answers = page.get_by_test_id("answer")
    expect(page.get_by_text("ended by stop")).to_be_visible()
    first = answers.first.inner_text()
    assert first and answers.first.locator("[data-heat]").count() > 0
    ask(page, "And about snow?")
    expect(page.get_by_role("list", name="Earlier turns").get_by_role("listitem")).to_have_count(3)
    expect(page.get_by_text("ended by stop")).to_be_visible()
    page.get_by_role("button", name="Add a column").click()
    expect(answers).to_have_count(2)
    expect(answers.nth(1)).to_have_attribute("aria-busy", "false")
    assert answers.nth(1).inner_text() == "", (
        "what was asked before it was added is not asked of it"
    )
    page.get_by_role("button", name="New conversation").click()
    ask(page, "Tell me about rain.")
    expect(page.get_by_text("ended by stop")).to_have_count(2)
    assert answers.all_inner_texts() == [first, first], "the same model, greedily"
    page.get_by_role("button", name="Open in code").first.click()
    expect(page.get_by_text('"content": "Tell me about rain."').first).to_be_visible()
    photograph(page, "playground")
    assert (
        page.evaluate("Object.keys(localStorage).length + Object.keys(sessionStorage).length") == 0
    )

    page.goto("/playground?columns=ses_gone")
    expect(page.get_by_role("status")).to_contain_text("ses_gone cannot be asked now")
    expect(page.get_by_role("button", name="Ask")).to_be_disabled()
    page.goto(f"/playground?columns=ses_gone,{session_id}")
    page.get_by_label("Temperature", exact=True).fill("0")
    ask(page, "Tell me about rain.")
    expect(page.get_by_text("ended by stop")).to_be_visible()
    page.get_by_role("button", name="Remove Model 1").click()
    expect(answers).to_have_text([first])  # it stays with the model that gave it

    choose_endpoint(page, f"{server.url}/openai/v1", key)
    ask(page, "Tell me about rain.")
    expect(answers).to_have_text([first])  # the same model, by its address and key

    stop(page, session_id)
    expect(page.get_by_text("This model is no longer served.")).to_be_visible()


def test_the_present_policy_of_a_run_is_asked_by_an_episode_that_is_given_up(
    page: Page, server: Server
) -> None:
    sign_up(page, "paul@example.org")
    session_id = create_session(page, "asked")
    expect(page.get_by_text("waiting for episodes").first).to_be_visible(timeout=RUNTIME_MS)
    page.goto(f"/playground?columns={session_id}")
    page.get_by_label("Prompt", exact=True).fill("Tell me about snow.")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text("ended by stop")).to_be_visible()
    expect(page.get_by_test_id("answer")).to_have_attribute("aria-busy", "false")
    assert page.get_by_test_id("answer").inner_text()
    said = page.request.get(f"/v1/sessions/{session_id}/accounting").json()
    assert (said["begun"], said["open"], said["abandoned_by_reason"]) == (
        1,
        0,
        {"playground": 1},
    ), said

    page.route("**/openai/v1/chat/completions", lambda route: None)  # its answer never comes
    page.get_by_label("Prompt", exact=True).fill("And of hail.")
    with page.expect_request("**/openai/v1/chat/completions"):  # the page knows the episode by now
        page.get_by_role("button", name="Ask").click()
    accounting = f"/v1/sessions/{session_id}/accounting"
    until(
        lambda: page.request.get(accounting).json()["open"] == 1, "the second episode is open", 30
    )
    page.goto(f"/sessions/{session_id}/health")
    until(
        lambda: page.request.get(accounting).json()["open"] == 0,
        "a page that is left gives up its episode",
        30,
    )
    assert page.request.get(accounting).json()["abandoned_by_reason"] == {"playground": 2}

    other = page.context.new_page()
    stop(other, session_id)
    phases = page.get_by_role("list", name="Phases").get_by_role("listitem")
    expect(phases.filter(has_text="stopped")).to_be_visible()  # the last entries, without a reload


def stop(page: Page, session_id: str) -> None:
    """End it: the server has room for one runtime."""
    page.goto(f"/sessions/{session_id}")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop session").click()
    expect(page.get_by_role("button", name="Delete")).to_be_visible(timeout=RUNTIME_MS)


def test_a_checkpoint_is_trained_further_from_its_row_with_the_options_of_its_run(
    page: Page, server: Server
) -> None:
    sign_up(page, "fritz@example.org")
    first = create_session(page, "first")
    expect(page.get_by_text("waiting for episodes").first).to_be_visible(timeout=RUNTIME_MS)
    page.goto(f"/sessions/{first}")
    page.get_by_role("button", name="Export model").click()
    open_place(page, "Checkpoints")
    expect(page.get_by_text("committed", exact=True)).to_be_visible(timeout=RUNTIME_MS)
    stop(page, first)
    open_place(page, "Checkpoints")
    page.get_by_role("link", name="Train further from here").click()
    chosen = page.get_by_label("Base model", exact=True)
    expect(chosen).to_have_value(re.compile(r"^ckp_\w+$"))
    checkpoint_id = chosen.input_value()
    expect(page.get_by_label("Name")).to_have_value("first")
    page.get_by_label("Name").fill("second")
    page.get_by_role("button", name="Start session").click()
    page.wait_for_url(re.compile(r"/sessions/ses_\w+$"))
    began = page.get_by_role("link", name="from the model of step 0 of another run")
    expect(began).to_have_attribute("title", checkpoint_id)
    photograph(page, "trained-further")
    second = page.url.rsplit("/", 1)[1]
    page.get_by_role("link", name="Run again").click()
    expect(page.get_by_label("Base model", exact=True)).to_have_value(checkpoint_id)
    stop(page, second)
