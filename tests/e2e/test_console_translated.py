"""Pages whose text a browser's translation has wrapped: React's own nodes are no longer where it
put them.
"""

import re

import pytest
from e2e.ended_run import Run
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

# As translations do it: each text in a <font>, with React's node inside it or without it, and new
# text as it comes.
TRANSLATE = """(keepsNode) => {
    const wrap = (text) => {
        const parent = text.parentElement;
        if (!text.data.trim() || !parent || parent.closest("font, script, style, [translate=no]")) return;
        const font = document.createElement("font");
        parent.replaceChild(font, text);
        if (keepsNode) font.append(text);
        else font.append(Object.assign(document.createElement("font"), { textContent: text.data }));
    };
    const wrapAll = (root) => {
        const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
        const texts = [];
        while (walker.nextNode()) texts.push(walker.currentNode);
        texts.forEach(wrap);
    };
    wrapAll(document.body);
    new MutationObserver((records) => {
        for (const { addedNodes } of records) for (const node of addedNodes) {
            if (node.nodeType === Node.TEXT_NODE) wrap(node);
            else if (node.nodeType === Node.ELEMENT_NODE && node.isConnected) wrapAll(node);
        }
    }).observe(document.body, { childList: true, subtree: true });
}"""


def translated(page: Page, path: str, heading: str | re.Pattern[str], *, keeps_node: bool) -> None:
    page.goto(path)
    expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.evaluate(TRANSLATE, keeps_node)


@pytest.mark.parametrize("keeps_node", [True, False])
def test_a_translated_page_takes_filters_clicks_and_ways_to_other_pages(
    run: Run, keeps_node: bool
) -> None:
    page, base = run.page, f"/sessions/{run.session_id}"
    how = {"keeps_node": keeps_node}
    failed = page.get_by_text("This page failed")

    translated(page, f"{base}/episodes", "Episodes", **how)
    rows = page.get_by_role("status")
    before = rows.inner_text()
    page.get_by_label("Task").first.fill("mist")
    expect(page).to_have_url(re.compile("task=mist"))
    expect(rows).not_to_have_text(before)  # the count that changes is seen, not that of before
    page.get_by_label("Task").first.fill("")
    expect(rows).to_have_text(before)
    page.get_by_role("link").filter(has_text="mist").last.click()  # the first was given up
    page.wait_for_url(re.compile(r"/episodes/epi_"))
    page.wait_for_load_state("networkidle")
    page.locator("[aria-pressed]").nth(1).click()
    colours = page.get_by_role("combobox", name=re.compile("Colour"))
    for measure in ("advantage", "version", "none"):
        colours.select_option(measure)
    page.locator("[data-token]").first.click()
    page.keyboard.press("ArrowRight")
    expect(failed).to_have_count(0)

    translated(page, f"{base}/charts", "Charts", **how)
    page.get_by_role("button", name="Optimizer").click()
    page.get_by_role("combobox", name=re.compile("^Over")).select_option("tokens")
    page.get_by_role("button", name=re.compile("^Show all")).first.click()
    expect(page.get_by_role("combobox", name=re.compile("^Over"))).to_have_value("tokens")

    translated(page, "/sessions", "Sessions", **how)
    page.get_by_role("checkbox", name=re.compile("^Compare")).first.check()
    page.get_by_role("searchbox", name="Name or id contains").fill("nothing of this name")
    expect(page.get_by_text("No session matches")).to_be_visible()
    page.get_by_role("link", name="Show all sessions").click()
    expect(page.get_by_role("row").nth(1)).to_be_visible()
    for place in ("Serving", "Playground", "API keys", "Members", "Usage", "Sessions"):
        page.get_by_role("navigation", name="Main").get_by_role("link", name=place).click()
        page.wait_for_load_state("networkidle")
    for path, heading in (
        (base, "."),
        (f"{base}/steps/1", "."),
        (f"{base}/steps", "Steps"),
        (f"{base}/evals", "Evals"),
        (f"{base}/checkpoints", "Checkpoints"),
        (f"{base}/settings", "Settings"),
        (f"{base}/tasks", "Tasks"),
        (f"{base}/health", "Health"),
        ("/home", "Home"),
        ("/capacity", "Capacity"),
        ("/account", "Account"),
    ):
        translated(page, path, re.compile(heading), **how)
        page.get_by_role("navigation", name="Main").get_by_role("link", name="Sessions").click()
        expect(page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
    expect(failed).to_have_count(0)


@pytest.mark.parametrize("keeps_node", [True, False])
def test_translated_forms_lists_and_pages_of_the_manual_change_as_others_do(
    run: Run, keeps_node: bool
) -> None:
    page, how = run.page, {"keeps_node": keeps_node}

    translated(page, f"/compare?runs={run.session_id}", "Compare runs", **how)
    page.get_by_role("combobox", name=re.compile("^Over")).first.select_option("tokens")
    page.get_by_role("button", name=re.compile("^Take out")).click()
    expect(page.get_by_role("link", name="All sessions")).to_be_visible()
    page.get_by_role("combobox", name="Add a run").select_option(index=1)
    expect(page.get_by_role("button", name=re.compile("^Take out"))).to_be_visible()

    for path, heading, button in (
        ("/alert-rules", "Alert rules", "New rule"),
        ("/webhooks", "Webhooks", "New webhook"),
        ("/members", "Members", "Invite"),
    ):
        translated(page, path, heading, **how)
        page.get_by_role("button", name=button).first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox").first.fill("one")
        dialog.locator("button[type=submit]").click()  # what is missing is named
        expect(dialog.get_by_role("alert").first).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)

    translated(page, "/audit", "Audit log", **how)
    page.get_by_role("searchbox", name="What").fill("nothing of this name")
    expect(page.get_by_text("No entry matches")).to_be_visible()
    page.get_by_role("link", name="Show all entries").click()
    expect(page.get_by_role("row").nth(1)).to_be_visible()

    translated(page, "/usage", "Usage", **how)
    page.get_by_role("combobox", name=re.compile("^By")).select_option("model")
    expect(page.get_by_role("region", name="Usage by model")).to_be_visible()

    translated(page, "/sessions/new", "New session", **how)
    page.get_by_label("Name").fill("one")
    page.get_by_label("Name").press("Tab")
    for option in page.locator("summary").all():
        option.click()
    page.get_by_label("Name").fill("two")

    translated(page, "/words", "What is this word", **how)
    search = page.get_by_role("searchbox").first
    search.fill("entropy")
    expect(page).to_have_url(re.compile("q=entropy"))
    search.fill("no such word at all")
    expect(page.get_by_text("No word or option matches")).to_be_visible()

    translated(page, "/manual/howto/runs", re.compile("."), **how)
    menu = page.get_by_role("navigation", name=re.compile("[Mm]anual"))
    menu.get_by_role("link").nth(2).click()
    expect(page).not_to_have_url(re.compile("howto/runs"))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_text("This page failed")).to_have_count(0)


def test_a_translated_page_of_a_shared_link_takes_its_filters(run: Run) -> None:
    link = run.api.post("/shares", json={"expires_in_days": 1}).raise_for_status().json()
    origin = str(run.api.base_url.copy_with(path="")).rstrip("/")
    with run.page.context.browser.new_context(base_url=origin) as stranger:
        page = stranger.new_page()
        for keeps_node in (True, False):
            path = f"/shared#{link['url'].partition('#')[2]}"
            translated(page, path, re.compile("."), keeps_node=keeps_node)
            table = page.get_by_role("table", name="Episodes")
            table.get_by_role("link").first.click()
            expect(page).to_have_url(re.compile("episode="))
            page.go_back()
            expect(table.get_by_role("link").first).to_be_visible()
            expect(page.get_by_text("This page failed")).to_have_count(0)
            page.goto("about:blank")
    run.api.delete(f"/shares/{link['id']}")
