"""The console without a mouse: what has the focus is seen, dialogs and menus give it back, and
charts are read and zoomed.
"""

import re

import pytest
from e2e.ended_run import Run
from e2e.played_record import Played, make_session, metric
from e2e.test_console_accessible import pages, settle
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser
# React runs its later effects in a task of their own: here 300 ms after what it shows.
SLOW_TASKS = """
const post = MessagePort.prototype.postMessage;
MessagePort.prototype.postMessage = function (...message) {
  setTimeout(() => post.apply(this, message), 300);
};
"""
PRESS_K_ONCE_IT_LEADS = """() => {
  new MutationObserver((_, observer) => {
    const button = document.querySelector('button[title="K"]');
    if (!button || button.disabled) return;
    observer.disconnect();
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "k", bubbles: true }));
    document.body.dataset.pressed = "";
  }).observe(document.body, { attributes: true, childList: true, subtree: true });
}"""

MOST_STOPS = 400  # of a page: more is a trap
# What has the focus: where it stands in the document, whether it is seen there, and in what words.
FOCUSED = """() => {
    const it = document.activeElement, style = getComputedStyle(it), box = it.getBoundingClientRect();
    const around = [...document.querySelectorAll('*')];
    const ring = (one) => {
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(one);
        return (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) || boxShadow !== 'none';
    };
    return {
        at: around.indexOf(it), isPage: it === document.body,
        isSeen: ring(it) && box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight,
        name: `${it.tagName} ${it.ariaLabel ?? it.textContent.trim().slice(0, 40)}`,
        isFixed: style.position === 'fixed',
    };
}"""


def walked(page: Page) -> list[str]:
    """What is wrong with the way of the tab key through the page."""
    problems, before = [], -1
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused["isPage"] or focused["at"] < before and focused["name"] == "A Skip to content":
            return problems
        if not focused["isSeen"]:
            problems.append(f"not seen: {focused['name']}")
        if focused["at"] < before:
            problems.append(f"out of order: {focused['name']}")
        before = focused["at"]
    return [*problems, f"does not end within {MOST_STOPS} stops"]


@pytest.mark.timeout(900)  # some thirty pages, each from its first stop to its last
def test_each_stop_of_the_tab_key_is_seen_and_in_the_order_of_the_page(run: Run) -> None:
    page, problems = run.page, {}
    for name, path in pages(run).items():
        page.goto(path)
        settle(page)
        problems[name] = walked(page)
    assert {name: here for name, here in problems.items() if here} == {}


def test_menus_and_dialogs_open_by_key_and_give_the_focus_back(run: Run) -> None:
    page = run.page
    page.goto(f"/sessions/{run.session_id}/charts")
    settle(page)
    for opener, role, name in (
        ("Alerts", "dialog", "Alerts"),
        ("Views…", "dialog", "Saved views"),
        ("Go to", "dialog", "Go to or do"),
        ("rita@example.org", "menu", None),
    ):
        button = page.get_by_role("button", name=opener).first
        button.press("Enter")
        opened = page.get_by_role(role, name=name) if name else page.get_by_role(role)
        expect(opened).to_be_visible()
        page.keyboard.press("Tab")
        assert opened.evaluate("it => it.contains(document.activeElement)"), f"{opener} keeps it"
        page.keyboard.press("Escape")
        expect(opened).to_have_count(0)
        expect(button).to_be_focused()
    for path, opener, name in (
        (f"/sessions/{run.session_id}", "Delete", "Delete"),
        (f"/sessions/{run.session_id}/settings", "Edit name, tags, notes", ""),
        ("/keys", "New key", ""),
        ("/members", "Invite", ""),
        ("/webhooks", "New webhook", ""),
        ("/alert-rules", "New rule", ""),
    ):
        page.goto(path)
        settle(page)
        button = page.get_by_role("button", name=re.compile(f"^{opener}")).first
        button.press("Enter")
        dialog = page.get_by_role("dialog").or_(page.get_by_role("alertdialog"))
        expect(dialog).to_contain_text(name)
        assert dialog.evaluate("it => it.contains(document.activeElement)"), path
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(button).to_be_focused()


@pytest.mark.smoke
def test_a_chart_is_read_zoomed_and_left_for_its_step_by_key(run: Run) -> None:
    page = run.page
    page.goto("/sessions")  # whose cookies the request is made with
    session_id = make_session(page, "by key")
    played = Played(page)
    page.goto(f"/sessions/{session_id}/charts")
    played.send(*(metric(step, loss=step / 8) for step in range(1, 9)))
    expect(page.locator("canvas")).to_have_count(2)
    loss = page.get_by_role("application", name="Loss")
    reading = page.locator("figure", has=loss).locator("figcaption")
    loss.focus()
    expect(loss.get_by_text("+ − zoom")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(reading).to_contain_text("0.125step 1")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(reading).to_contain_text("0.5step 4")
    expect(loss.locator("[aria-live]")).to_have_text("at step 4: loss 0.5")
    page.keyboard.press("+")
    expect(page).to_have_url(re.compile(r"zoom=2\.25(~|%7E)5\.75$"))
    curve = page.get_by_role("img", name=re.compile("^Loss"))
    expect(curve).to_have_attribute("data-shown", "2.25 5.75")
    page.keyboard.press("End")
    expect(reading).to_contain_text("0.625step 5")
    page.keyboard.press("0")
    expect(page).not_to_have_url(re.compile("zoom"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/steps/5$"))


def test_a_key_is_made_and_a_run_found_without_a_mouse(run: Run) -> None:
    page = run.page
    page.goto("/keys")
    settle(page)
    page.get_by_role("button", name="New key").press("Enter")
    page.get_by_label("Name").press_sequentially("by key")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Your new key")).to_be_visible()
    page.get_by_role("button", name="Done").press("Enter")
    expect(page.get_by_role("row", name="by key")).to_be_visible()
    page.get_by_role("row", name="by key").get_by_role("button", name="Revoke").press("Enter")
    page.get_by_role("alertdialog").get_by_role("button", name=re.compile("Revoke")).press("Enter")
    page.keyboard.press("Control+k")
    page.keyboard.type("words")
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_key_pressed_as_soon_as_the_page_shows_where_it_leads_is_taken(run: Run) -> None:
    page = run.page
    page.add_init_script(SLOW_TASKS)
    page.goto(f"/sessions/{run.session_id}/steps/1/groups/mist")
    page.get_by_role("region", name=re.compile(r"^Answer \d")).first.get_by_role("link").click()
    expect(page.get_by_role("button", name="Next")).to_be_enabled()
    best = page.url
    page.evaluate(PRESS_K_ONCE_IT_LEADS)
    page.keyboard.press("j")
    expect(page.locator("body[data-pressed]")).to_be_visible()
    expect(page).to_have_url(best)
