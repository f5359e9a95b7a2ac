"""Where an operator has set prices, each page that tells a cost tells the one that was measured."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from e2e.console_pages import ROOT, make_key, pages_need, sign_up
from e2e.ended_run import photograph
from e2e.loop_server import LoopServer, until
from e2e.playing import play
from playwright.sync_api import Page, expect, sync_playwright

from support.browsers import browser_start, errors_of
from support.chromium import WITHIN_MS

pytestmark = pytest.mark.browser

AXE = ROOT / "frontend/node_modules/axe-core/axe.min.js"
VIOLATIONS = "async () => (await axe.run(document)).violations.map(({ id }) => id)"
AN_HOUR = 72.5  # EUR, without a GPU
# Cells of a column that is named so, which do not stand at its right edge.
ASKEW = """(table) => {
    const head = [...table.querySelectorAll("th[scope=col]")];
    const at = head.findIndex((it) => it.innerText === "Cost");
    const cells = [...table.rows].map((row) => row.cells[at]);
    const askew = cells.filter((it) => getComputedStyle(it).textAlign !== "right");
    return askew.map((it) => it.innerText);
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopServer]:
    pages_need()
    server = LoopServer(tmp_path_factory.mktemp("priced"))
    server.environment["TINKERSCRIPT_PRICES"] = f"gpu=2.40,cpu={AN_HOUR},currency=EUR"
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def page(server: LoopServer) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = browser_start(playwright)
        page = browser.new_page(base_url=server.url, viewport={"width": 1440, "height": 900})
        page.set_default_timeout(WITHIN_MS)
        errors = errors_of(page)
        page.add_init_script(path=AXE)
        yield page
        browser.close()
        assert errors == [], errors


def played(server: LoopServer) -> str:
    """The id of a session that a runtime has worked for."""
    remote = server.session(name="priced")
    play(remote, "mist", 2)
    remote.close()
    return remote.id


def test_every_page_with_a_cost_tells_what_was_measured_at_the_price_that_was_set(
    server: LoopServer, page: Page
) -> None:
    sign_up(page, "prica@example.org")
    server.api_key = make_key(page)
    with ThreadPoolExecutor(1) as beside:  # the browser's event loop lets no client wait
        session_id = beside.submit(played, server).result()
    headers = {"Authorization": f"Bearer {server.api_key}"}
    with httpx.Client(base_url=f"{server.url}/v1", headers=headers, timeout=30) as api:
        until(
            lambda: api.get(f"/sessions/{session_id}").json()["state"] == "stopped",
            "the session has stopped",
            60,
        )
        told = api.get(f"/sessions/{session_id}/usage").json()
    assert told["cost"] == pytest.approx(told["device_s"] / 3600 * AN_HOUR) and told["cost"] > 0
    cost = f"€{told['cost']:.2f}"

    page.goto("/usage")
    facts = page.get_by_role("region", name="All sessions")
    expect(facts).to_contain_text(cost)
    expect(facts).to_contain_text("€2.40 a GPU-hour, €72.50 an hour without")
    for name in ("Usage by session", "Usage by key"):
        if name == "Usage by key":
            page.get_by_role("combobox", name="By").select_option("key")
        table = page.get_by_role("region", name=name).locator("table")
        expect(table.get_by_role("row").nth(1)).to_contain_text(cost)
        assert table.evaluate(ASKEW) == []
    clean(page, "costs-usage")

    page.goto(f"/sessions/{session_id}/settings")
    budget = page.get_by_role("region", name="Budget")
    expect(budget).to_contain_text(re.compile(rf"Cost so far\s*{cost}"))
    clean(page, "costs-run")

    page.goto("/home")
    week = page.get_by_role("region", name="Last 7 days")
    expect(week).to_contain_text(re.compile(rf"Cost\s*{cost}"))
    clean(page, "costs-home")

    page.goto(f"/compare?runs={session_id}")
    table = page.get_by_role("region", name="Final measures of the runs").locator("table")
    expect(table.get_by_role("cell", name=cost, exact=True)).to_be_visible()
    assert table.evaluate(ASKEW) == []
    clean(page, "costs-compare")


def clean(page: Page, name: str) -> None:
    """The page that is shown has numbers, and nothing that axe finds."""
    expect(page.get_by_text(re.compile("NaN|undefined|Infinity"))).to_have_count(0)
    assert page.evaluate(VIOLATIONS) == []
    photograph(page, name)
