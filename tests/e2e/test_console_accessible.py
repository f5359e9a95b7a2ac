"""Every page in both themes, with the rules of axe, and at 320 px: one browser and one run serve
all of them.

With CONSOLE_SCREENSHOTS set to a folder, what each page looked like is kept there.
"""

import re

import pytest
from e2e.console_pages import ROOT
from e2e.ended_run import Run, photograph
from e2e.loop_server import until
from playwright.sync_api import Page, Route, expect

from support.chromium import WITHIN_MS

pytestmark = pytest.mark.browser

AXE = ROOT / "frontend/node_modules/axe-core/axe.min.js"
# What axe reports, one line a node: the rule, where, and what is wrong there. Besides axe's own
# rules one that it does not apply by itself: who speaks a button's words must be able to press it.
# The second theme is the same document in other colours: of all rules two read colours.
PROBLEMS = """async (colours) => (await axe.run(document, colours
    ? { runOnly: ["color-contrast", "link-in-text-block"] }
    : { rules: { "label-content-name-mismatch": { enabled: true } } })).violations.flatMap(
    ({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id} ${target.join(" ")}: ${failureSummary}`))"""
# Tables that have to be scrolled sideways, by name.
SIDEWAYS = """[...document.querySelectorAll('table, [role=table]')].filter((table) =>
    [table, table.parentElement].some((box) => box.scrollWidth > box.clientWidth + 1)).map((table) =>
        table.ariaLabel ?? table.parentElement.ariaLabel)"""
# Words at the head of columns, values, charts and boxes that have no explanation. Names that
# somebody gave are set in type of one width.
UNEXPLAINED = """[...document.querySelectorAll(
    'main :is(dt, th[scope=col], [role=columnheader], h2, figcaption > span:first-child)')].filter((it) =>
        it.checkVisibility() && !it.matches('.font-mono') && !it.querySelector('[data-word], bdi')).map((it) =>
            it.innerText.trim()).filter((text) =>
                !/^(Evaluation|CPU|Memory|Disk free|GPU|In the object store|Version) /.test(text))"""
# Those that need none: who never trained a model knows them, or a line beside them tells it.
PLAIN = frozenset({
    "Actions", "All sessions", "Annotations", "Answer", "Archive", "At most", "Base model", "Began", "By day",
    "By session", "Came from", "Committed", "Compare", "Conversation", "Created", "Curves", "Device time",
    "Device time by day (UTC)", "Devices", "Devices in use", "Devices of this machine", "E-mail", "E-mail address",
    "Every project", "Final measures", "First", "GPU time", "GPUs", "GPUs of this machine", "Hash", "Hashes", "Id",
    "Key", "Last 7 days", "Last used", "Latest", "Launcher", "Learning", "Live runs", "Machine", "Machines", "May",
    "Name", "Needs attention", "Newest answer", "Newest runs", "No.", "Notes", "Now", "On", "Options", "Password",
    "Person", "Phases", "Place", "Places where sessions run", "Position", "Project", "Projects", "Public links",
    "Queue", "Quota", "Recent sign-ins and changes", "Restarts and faults", "Role", "Run", "Running",
    "Running in this project", "Runtime log", "Second factor", "Serve a base model", "Served models", "Session",
    "Sessions not ended", "Share", "Signed-in browsers", "Since", "Spent", "State", "Text",
    "The same evaluation task", "The whole server", "This project now", "Training", "Waiting",
    "Waiting in this project", "Waits for", "What", "When", "Who",
})  # fmt: skip
# Captions of the console's own that are not whole; names that somebody gave stand in a <bdi>.
CUT_CAPTIONS = """[...document.querySelectorAll(
    `main :is(dt, th, [role=columnheader], figcaption span, h1, h2, h3, label, legend, caption, button, [role=tab],
        li > span), aside a`)].filter((it) =>
            it.clientWidth > 1 && it.checkVisibility() && getComputedStyle(it).overflowX !== 'visible'
            && it.scrollWidth > it.clientWidth + 1 && !it.querySelector('bdi')).map((it) => it.textContent)"""
# What is cut with an ellipsis, and what is cut below.
CUT = """[...document.querySelectorAll('main *')].filter((it) =>
    it.clientWidth > 1 && getComputedStyle(it).overflow !== 'visible'
    && (it.scrollWidth > it.clientWidth + 1 || it.scrollHeight > it.clientHeight + 1)).map((it) => it.textContent)"""
# Choices whose words are cut away, and charts too narrow to be read.
SQUEEZED = """[...document.querySelectorAll('select'), ...document.querySelectorAll('.u-wrap')].filter((it) =>
    it.clientWidth > 0 && it.clientWidth < (it.matches('select') ? 80 : 200)).map((it) =>
        it.ariaLabel ?? it.className)"""
# What would have to be scrolled, which paper cannot be.
SCROLLED = """[...document.querySelectorAll('main *')].filter((it) => !it.matches('textarea, select')
    && /auto|scroll/.test(getComputedStyle(it).overflow)
    && (it.scrollWidth > it.clientWidth + 1 || it.scrollHeight > it.clientHeight + 1)).map((it) => it.className)"""
PAPER = {"width": 700, "height": 900}
WIDTH = "document.documentElement.scrollWidth"
BUSY = re.compile("^Loading|^Reading")
NARROW = {"width": 320, "height": 700}
WIDE = {"width": 1440, "height": 900}


def pages(run: Run) -> dict[str, str]:
    """Every page of a signed-in person by its name, and where it is."""
    session = f"/sessions/{run.session_id}"
    episode = run.api.get("/episodes", params={"sort": "best"}).json()["items"][0]["episode_id"]
    return {
        "home": "/home",
        "sessions": "/sessions",
        "new-session": "/sessions/new",
        "run": session,
        "run-episodes": f"{session}/episodes",
        "run-episode": f"{session}/episodes/{episode}?token=2",
        "run-step": f"{session}/steps/1/groups/mist",
        "run-step-episode": f"{session}/steps/1/groups/mist/episodes/{episode}?token=2",
        "run-read": f"{session}/episodes/{episode}",
        "run-charts": f"{session}/charts?open=policy,optimizer",
        "run-steps": f"{session}/steps",
        "run-evals": f"{session}/evals",
        "run-checkpoints": f"{session}/checkpoints",
        "run-settings": f"{session}/settings",
        "run-tasks": f"{session}/tasks?of=training&task=mist",
        "run-health": f"{session}/health",
        "no-run": "/sessions/ses_0000000000000000",
        "compare": f"/compare?runs={run.session_id}",
        "words": "/words",
        "manual": "/manual/howto/runs",
        "serving": "/serving",
        "playground": "/playground",
        "keys": "/keys",
        "members": "/members",
        "usage": "/usage",
        "capacity": "/capacity",
        "webhooks": "/webhooks",
        "audit": "/audit",
        "alert-rules": "/alert-rules",
        "account": "/account",
        "no-page": "/nowhere",
    }


# What a browser's tab says, by the name of the page; those that are not here have names of
# somebody's.
TITLES = {
    "sessions": "Sessions", "new-session": "New session", "keys": "API keys", "members": "Members", "usage": "Usage",
    "capacity": "Capacity", "webhooks": "Webhooks", "audit": "Audit log", "compare": "Compare runs",
    "account": "Account", "no-page": "There is no such page", "sign-in": "Sign in",
}  # fmt: skip


@pytest.fixture(scope="module")
def page(run: Run) -> Page:
    assert AXE.exists(), "set-up is not complete: requirements/install.sh frontend"
    return run.page


def settle(page: Page) -> None:
    """Return once the page shows what it asked for."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_text(BUSY)).to_have_count(0)


def found(page: Page, name: str) -> list[str]:
    """Today's problems of the shown page: its title, both themes, a small window, and paper."""
    problems = []
    if name in TITLES and page.title() != f"{TITLES[name]} · TinkerScript":
        problems.append(f"has the title {page.title()}")
    if name not in ("manual", "words"):
        unexplained = set(page.evaluate(UNEXPLAINED)) - PLAIN
        problems += [f"has no explanation: {word}" for word in sorted(unexplained)]
    problems += [f"caption cut: {text}" for text in page.evaluate(CUT_CAPTIONS)]
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        problems += [f"{theme}: {problem}" for problem in page.evaluate(PROBLEMS, theme == "dark")]
        photograph(page, f"{name}-{theme}")
    page.set_viewport_size(NARROW)
    width = page.evaluate(WIDTH)
    # lists become cards with the next paint; the page's policy allows no condition as a string
    for _ in range(50):
        if width <= NARROW["width"]:
            break
        page.wait_for_timeout(100)
        width = page.evaluate(WIDTH)
    if width > NARROW["width"]:
        problems.append(f"{width} px wide in a window of {NARROW['width']}")
    problems += [f"scrolled sideways: {name}" for name in page.evaluate(SIDEWAYS)]
    problems += [f"squeezed: {name}" for name in page.evaluate(SQUEEZED)]
    problems += [f"caption cut in a small window: {text}" for text in page.evaluate(CUT_CAPTIONS)]
    photograph(page, f"{name}-narrow")
    page.set_viewport_size(PAPER)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    problems += [f"cut on paper: {box}" for box in page.evaluate(SCROLLED)]
    if (width := page.evaluate(WIDTH)) > PAPER["width"]:
        problems.append(f"{width} px wide on paper of {PAPER['width']}")
    photograph(page, f"{name}-paper")
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.set_viewport_size(WIDE)
    return problems


@pytest.mark.smoke
@pytest.mark.timeout(600)  # some thirty pages, each in five looks
def test_no_page_has_what_axe_a_small_window_or_paper_finds(page: Page, run: Run) -> None:
    page.add_init_script(path=AXE)
    problems = {}
    for name, path in pages(run).items():
        page.goto(path)
        settle(page)
        problems[name] = found(page, name)
    page.emulate_media(color_scheme=None, reduced_motion=None)
    assert {name: here for name, here in problems.items() if here} == {}


# What the operator of a server with devices is told, which this run's person is not.
OPERATORS = {
    "runtimes": 2, "warm_runtimes": 1, "waiting": 1, "oldest_waits_since": "2026-01-01T00:00:00Z",
    "devices": [
        {"device": "0", "used_by": "session", "session_id": "ses_1", "session_name": "W" * 90},
        {"device": "1", "used_by": "nobody", "session_id": None, "session_name": None},
    ],
    "projects": [
        {"project_id": "prj_1", "name": "N" * 90, "runtimes": 2, "devices": 1, "device_quota": 4, "waiting": 1},
        {"project_id": "prj_2", "name": "two", "runtimes": 0, "devices": 0, "device_quota": None, "waiting": 0},
    ],
}  # fmt: skip
PLACES = [
    {"name": "here", "kind": "", "launcher": "process", "max_runtimes": 2, "running": 2, "queued": 1},
    {"name": "a-cluster-of-a-long-name", "kind": "h100x8", "launcher": "slurm", "max_runtimes": 16, "running": 3,
     "queued": 0},
]  # fmt: skip


def test_no_dialog_and_nothing_of_an_operator_has_it(page: Page, run: Run) -> None:
    page.add_init_script(path=AXE)
    problems = {}
    told = run.api.get(run.api.base_url.copy_with(path="/v1/capacity")).json()
    page.route("**/v1/capacity", lambda route: route.fulfill(json=told | {"server": OPERATORS}))
    page.route("**/v1/places", lambda route: route.fulfill(json={"items": PLACES}))
    page.goto("/capacity")
    expect(page.get_by_role("region", name="Projects", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Places", exact=True).get_by_role("row")).to_have_count(
        3
    )
    problems["operator"] = found(page, "capacity-operator")
    paints = page.locator(".cells").evaluate_all(
        "(all) => all.map((one) => getComputedStyle(one).backgroundColor)"
    )
    assert len(paints) > 2 and set(paints) == {"rgba(0, 0, 0, 0)"}, (
        "a place that no cell fills is no grey box"
    )
    page.unroute("**/v1/capacity")
    page.unroute("**/v1/places")
    page.goto(f"/sessions/{run.session_id}/charts")
    settle(page)
    opened = {
        "palette": ("Go to", page.get_by_role("combobox", name="Go to or do")),
        "alerts": ("Alerts", page.get_by_role("dialog", name="Alerts")),
        "views": ("Views…", page.get_by_role("dialog", name="Saved views")),
    }
    for name, (button, shown) in opened.items():
        page.get_by_role("button", name=button).first.click()
        expect(shown).to_be_visible()
        problems[name] = []
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            problems[name] += [
                f"{theme}: {problem}" for problem in page.evaluate(PROBLEMS, theme == "dark")
            ]
            photograph(page, f"{name}-{theme}")
        page.keyboard.press("Escape")
        expect(shown).to_have_count(0)
    page.emulate_media(color_scheme=None, reduced_motion=None)
    assert {name: here for name, here in problems.items() if here} == {}


BACKGROUND = "getComputedStyle(document.body).backgroundColor"
DARK, LIGHT = "rgb(15, 18, 22)", "rgb(245, 246, 248)"
# How wide the curve of each chart is, by the chart's name; 0 where none is drawn.
PLOT_WIDTHS = """Object.fromEntries([...document.querySelectorAll('figure:has([role=img])')].map((chart) =>
    [chart.querySelector('figcaption span').textContent, chart.querySelector('.u-wrap')?.clientWidth ?? 0]))"""
# Charts in the window with neither a curve nor a sentence in its place.
UNDRAWN = """[...document.querySelectorAll('figure [role=img]')].filter((chart) =>
    chart.getBoundingClientRect().top < innerHeight && !chart.querySelector('.u-wrap, p')).length"""


def test_a_theme_is_chosen_by_keyboard_and_is_there_before_the_console_starts(
    page: Page, run: Run
) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"/sessions/{run.session_id}")
    settle(page)
    page.get_by_role("button", name="rita@example.org").press("Enter")
    expect(page.get_by_role("menuitem", name="Account")).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("menuitemradio", name="Dark")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_have_css("background-color", DARK)
    page.route("**/assets/*.js", lambda route: route.abort())
    page.reload()
    # without any of the console's own code: nothing flashes
    assert page.evaluate(BACKGROUND) == DARK
    page.unroute("**/assets/*.js")
    page.reload()
    settle(page)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to or do").fill("light theme")
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_have_css("background-color", LIGHT)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to or do").fill("system theme")
    page.keyboard.press("Enter")
    expect(page.locator("html:not([data-theme])")).to_have_count(1)
    assert page.evaluate("localStorage.length") == 0
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(BACKGROUND) == DARK
    page.emulate_media(color_scheme=None)


def test_paper_has_the_whole_page_in_light_colours_and_nothing_to_press(
    page: Page, run: Run
) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"/sessions/{run.session_id}")
    settle(page)
    until(
        lambda: page.evaluate(UNDRAWN) == 0 and any(page.evaluate(PLOT_WIDTHS).values()),
        "charts are drawn",
        60,
    )
    on_screen = {name: width for name, width in page.evaluate(PLOT_WIDTHS).items() if width}
    assert max(on_screen.values()) > 640
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    until(
        lambda: 0 < max(page.evaluate(PLOT_WIDTHS).values()) <= 640,
        "the charts are as narrow as paper",
        60,
    )
    expect(page.get_by_role("navigation", name="Main")).to_be_hidden()
    expect(page.locator("button:visible", has_text="Delete")).to_have_count(0)
    assert (
        page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink')")
        == "#171b22"
    )
    cut = "[...document.querySelectorAll('main *')].filter((it) => /auto|scroll/.test(getComputedStyle(it).overflow))"
    assert page.evaluate(f"{cut}.map((it) => it.className)") == []
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    until(
        lambda: page.evaluate(PLOT_WIDTHS).items() >= on_screen.items(),
        "the charts are as they were",
        60,
    )
    assert page.evaluate(BACKGROUND) == DARK
    page.emulate_media(media=None, color_scheme=None)


def test_a_narrow_window_has_the_name_of_each_value_and_paper_whole_names(
    page: Page, run: Run
) -> None:
    name, session = "W" * 120, str(run.api.base_url).rstrip("/")
    before = run.api.get(session).json()["name"]
    run.api.patch(session, json={"name": name}).raise_for_status()
    page.set_viewport_size(NARROW)
    page.goto("/sessions")
    state = page.get_by_role("row", name=name).get_by_role("cell").filter(has_text="stopped")
    expect(state).to_be_visible()
    assert state.evaluate("it => getComputedStyle(it, '::before').content") == '"State"'
    page.set_viewport_size(WIDE)
    for path in (
        "/sessions",
        "/usage",
        f"/sessions/{run.session_id}/episodes",
        f"/sessions/{run.session_id}",
    ):
        page.goto(path)
        settle(page)
        assert page.evaluate(SIDEWAYS) == [], path
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        expect(page.get_by_role("main").get_by_text(name).first).to_be_visible()
        assert page.evaluate(CUT) == [], path
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
    run.api.patch(session, json={"name": before}).raise_for_status()
    page.emulate_media(media=None)


def test_printing_the_episodes_has_every_row_that_was_read_and_reads_no_more(
    page: Page, run: Run
) -> None:
    asked, item = [], run.api.get("/episodes", params={"sort": "newest"}).json()["items"][0]

    def many(route: Route) -> None:
        asked.append(route.request.url)
        items = [item | {"episode_id": f"ep_{len(asked)}_{at}"} for at in range(100)]
        route.fulfill(json={"items": items, "next_cursor": f"after_{len(asked)}"})

    listed = re.compile(r"/v1/sessions/[^/]+/episodes\?")
    page.route(listed, many)
    page.goto(f"/sessions/{run.session_id}/episodes")
    settle(page)
    rows = page.get_by_role("rowgroup").get_by_role("row")
    expect(rows.first).to_be_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(rows).to_have_count(100)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(rows).not_to_have_count(100)
    page.unroute(listed)
    assert len(asked) == 1


def pages_of_strangers(run: Run, token: str) -> dict[str, str]:
    """Every page of somebody who is not signed in; two of them need a link to the run."""
    episode = run.api.get("/episodes", params={"sort": "best"}).json()["items"][0]["episode_id"]
    return {
        "sign-in": "/signin",
        "sign-up": "/signup",
        "reset-password": "/reset-password",
        "new-password": "/reset-password/1-not-a-key",
        "verify-email": "/verify-email/not-a-key",
        "shared": f"/shared#{token}",
        "shared-episode": f"/shared?episode={episode}&token=2#{token}",
    }


def test_no_page_of_somebody_who_is_not_signed_in_has_it(run: Run) -> None:
    origin = str(run.api.base_url.copy_with(path="")).rstrip("/")
    link = run.api.post("/shares", json={"expires_in_days": 1}).json()
    with run.page.context.browser.new_context(base_url=origin, viewport=WIDE) as stranger:
        stranger.set_default_timeout(WITHIN_MS)
        page = stranger.new_page()
        page.add_init_script(path=AXE)
        problems = {}
        for name, path in pages_of_strangers(run, link["url"].partition("#")[2]).items():
            page.goto(path)
            settle(page)
            problems[name] = found(page, name)
    # other tests count the links of this run
    assert run.api.delete(f"/shares/{link['id']}").status_code == 204
    assert {name: here for name, here in problems.items() if here} == {}
