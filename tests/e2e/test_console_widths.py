"""Pages at several widths with names as long as names get, and those of a project that has nothing:
in a real browser.
"""

import json
import re
from typing import Any

import pytest
from e2e.console_pages import sign_up
from e2e.ended_run import Run, photograph
from e2e.played_record import make_session
from e2e.test_console_accessible import CUT_CAPTIONS, pages, settle
from playwright.sync_api import Page, Route, expect

from support.chromium import WITHIN_MS

pytestmark = pytest.mark.browser

# The last is the first at a zoom of 200 %.
WIDTHS = (1400, 800, 400, 700)
LONG = "W" * 90
NAMED = re.compile(
    r"/v1/(account|sessions(/ses_\w+)?|keys|usage(/\w+)?|capacity|alert-rules|base-models|members)(\?|$)"
)
NAMES = {"name", "session_name", "base_model", "model", "created_by"}
# Texts that lie on one another, and what is wider than the window. What is cut is not seen: of a
# text counts what its boxes leave of it. Canvases draw what is over them.
FOUND = """() => {
    const seen = (text) => {
        const range = document.createRange();
        range.selectNodeContents(text);
        let { left, right, top, bottom } = range.getBoundingClientRect();
        for (let box = text.parentElement; box; box = box.parentElement) {
            const style = getComputedStyle(box), around = box.getBoundingClientRect();
            if (style.visibility === "hidden" || style.opacity === "0") return null;
            if (style.position === "fixed" || style.position === "sticky") return null;
            if (style.overflowX !== "visible")
                [left, right] = [Math.max(left, around.left), Math.min(right, around.right)];
            if (style.overflowY !== "visible")
                [top, bottom] = [Math.max(top, around.top), Math.min(bottom, around.bottom)];
        }
        return right - left > 3 && bottom - top > 3 ? { left, right, top, bottom } : null;
    };
    const drawn = "script, style, option, .sr-only, .u-wrap, svg, datalist";
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), texts = [];
    while (walker.nextNode()) {
        const text = walker.currentNode;
        const parent = text.parentElement;
        if (!text.data.trim() || parent.closest(drawn) || !parent.checkVisibility()) continue;
        const rect = seen(text);
        if (rect) texts.push([text, rect]);
    }
    const over = [];
    texts.forEach(([text, one], at) => texts.slice(at + 1).forEach(([other, two]) => {
        const wide = Math.min(one.right, two.right) - Math.max(one.left, two.left);
        const high = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
        // lines of one paragraph, and parts of one line that goes on below
        if (text.parentElement.contains(other) || other.parentElement.contains(text)) return;
        if (wide > 2 && high > 4 && getComputedStyle(other.parentElement).display !== "inline")
            over.push(`${text.data.slice(0, 20)} on ${other.data.slice(0, 20)}`);
    }));
    const { scrollWidth } = document.documentElement;
    return [...(scrollWidth > innerWidth ? [`${scrollWidth} px wide`] : []), ...over.slice(0, 5)];
}"""


def lengthened(found: Any) -> Any:
    """The same answer with names of 90 characters, and a measure of such a name."""
    if isinstance(found, list):
        return [lengthened(each) for each in found]
    if not isinstance(found, dict):
        return found
    changed = {
        name: LONG if name in NAMES and isinstance(value, str) and value else lengthened(value)
        for name, value in found.items()
    }
    if isinstance(changed.get("measures"), dict):
        changed["measures"] |= {f"metrics/{LONG}": 0.123456}
    return changed


def lengthen(route: Route) -> None:
    answer = route.fetch()
    try:
        route.fulfill(response=answer, json=lengthened(answer.json()))
    except json.JSONDecodeError:
        route.fulfill(response=answer)


@pytest.mark.timeout(1200)  # some thirty pages at four widths
def test_names_of_90_characters_widen_no_page_and_cover_nothing(run: Run) -> None:
    page = run.page
    page.route(NAMED, lengthen)
    problems = {}
    columns = f"/sessions?columns={json.dumps([f'metrics/{LONG}'])}"
    for name, path in (pages(run) | {"sessions-columns": columns}).items():
        page.goto(path)
        settle(page)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900 if width != 700 else 450})
            found = page.evaluate(FOUND)
            for _ in range(20):  # lists become cards, and charts narrower, with a later paint
                if not found:
                    break
                page.wait_for_timeout(100)
                found = page.evaluate(FOUND)
            photograph(page, f"{name}-long-{width}")
            cut = [text for text in page.evaluate(CUT_CAPTIONS) if LONG not in text]
            if found or cut:
                problems[f"{name} at {width}"] = found + cut
    page.goto(f"/sessions/{run.session_id}")
    settle(page)
    unbroken = "it => { it.style.whiteSpace = 'nowrap'; it.parentElement.style.minWidth = 'auto'; }"
    page.get_by_role("heading", level=1).evaluate(unbroken)
    assert page.evaluate(FOUND) != [], "a name that is not broken is noticed"
    page.set_viewport_size({"width": 1440, "height": 900})
    page.unroute(NAMED)
    assert problems == {}


def test_a_page_without_anything_has_one_next_step(run: Run) -> None:
    origin = str(run.api.base_url.copy_with(path="")).rstrip("/")
    viewport = {"width": 1440, "height": 900}
    with run.page.context.browser.new_context(base_url=origin, viewport=viewport) as context:
        context.set_default_timeout(WITHIN_MS)
        page = context.new_page()
        sign_up(page, "emma@example.org")
        for path, text, step in (
            ("/home", "No session yet", "Create an API key"),
            ("/sessions", "No session yet", "Create an API key"),
            ("/compare", "No session yet", "Create an API key"),
            ("/usage", "No session yet", "New session"),
            ("/alert-rules", "No rule yet", "New rule"),
            ("/webhooks", "No webhook yet", "New webhook"),
            ("/audit?actor=nobody+at+all", "No entry matches", "Show all entries"),
        ):
            look(page, path, text, step)
        session = f"/sessions/{make_session(page, 'empty')}"
        look(page, f"{session}/tasks", "No episode was trained", "Show its episodes")
        look(page, f"{session}/evals", "No evaluation yet", "How to evaluate")
        look(page, f"{session}/checkpoints", "No checkpoint was kept", "Run again")


def look(page: Page, path: str, text: str, step: str) -> None:
    """The page tells ``text``, and under it there is one thing to do."""
    page.goto(path)
    empty = page.get_by_role("main").get_by_text(text, exact=True).locator("..")
    expect(empty).to_be_visible()
    steps = empty.get_by_role("link").or_(empty.get_by_role("button"))
    steps = steps.filter(has_not_text="Explore a demo run")  # to read, and nothing to do
    expect(steps).to_have_count(1)
    expect(steps).to_have_text(step)
    photograph(page, f"empty{path.partition('?')[0].replace('/', '-')}")
