"""A new person opens the demo run from Home, reads its charts, an episode and its tokens, and comes
back.
"""

import re

import pytest
from e2e.console_pages import browser, open_place, page, server, sign_up
from e2e.ended_run import photograph
from playwright.sync_api import Page, expect

__all__ = ["browser", "page", "server"]

pytestmark = pytest.mark.browser

# The run's events, and what says that it is a demo, where a part of them cannot be read. A detail
# that can be opened is shorter until then.
CUT = """[...document.querySelectorAll("header *, [role=tabpanel] li > span")].filter((it) =>
    it.getBoundingClientRect().right > innerWidth
    || it.parentElement.scrollWidth > it.parentElement.clientWidth + 1
    || (getComputedStyle(it).overflow !== "visible" && it.scrollWidth > it.clientWidth + 1)
).map((it) => it.textContent)"""


def test_a_new_person_explores_the_demo_run_and_comes_back(page: Page) -> None:
    sign_up(page, "dana@example.org")
    page.evaluate("localStorage.setItem('project', 'prj_of_hers')")
    first_steps = page.get_by_role("region", name="First steps")
    expect(first_steps.get_by_role("link", name="Create an API key")).to_be_visible()
    photograph(page, "home-new")
    first_steps.get_by_role("link", name="Explore a demo run").click()
    expect(page).to_have_url(re.compile(r"/demo/sessions/ses_\w+$"))
    expect(page.get_by_text("Demo run: a recording of the quickstart")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("quickstart")
    expect(page.get_by_test_id("charts")).to_have_attribute("data-steps", re.compile(r"^\d+$"))
    expect(page.get_by_role("img", name=re.compile("^Reward by"))).to_be_visible()
    assert page.get_by_role("button", name=re.compile("Pin|Stop|Delete|Make a link")).count() == 0
    photograph(page, "demo-run")
    for size in ({"width": 390, "height": 844}, {"width": 1280, "height": 800}):
        page.set_viewport_size(size)
        assert page.evaluate(CUT) == []

    open_place(page, "Episodes")
    page.goto(f"{page.url}?fate=trained")  # its newest are of the last evaluation
    rows = page.get_by_role("table", name="Episodes").get_by_role("row")
    rows.filter(has_text="trained").first.get_by_role("link").first.click()
    conversation = page.get_by_role("region", name="Conversation")
    expect(conversation).to_contain_text("Is the review positive or negative?")
    page.get_by_role("button", name="Tokens", exact=True).click()
    expect(page.locator("[data-token]").first).to_be_visible()

    open_place(page, "Checkpoints")
    expect(page.get_by_text("Not kept: the demo run has").first).to_be_visible()
    page.reload()
    expect(page.get_by_text("Not kept: the demo run has").first).to_be_visible()

    # What a browser keeps of a person's own projects is left as it was.
    assert page.evaluate("localStorage.getItem('project')") == "prj_of_hers"
    page.evaluate("localStorage.removeItem('project')")
    page.get_by_role("link", name="Back to Home").click()
    expect(page.get_by_role("heading", name="Home")).to_be_visible()
    expect(first_steps.get_by_text("No session yet")).to_be_visible()


def test_the_manual_shows_its_pictures(page: Page) -> None:
    sign_up(page, "mia@example.org")
    page.goto("/manual/quickstart")
    picture = page.get_by_role("img", name="An episode as a conversation")
    picture.scroll_into_view_if_needed()
    expect(picture).to_have_js_property("naturalWidth", 1200)
