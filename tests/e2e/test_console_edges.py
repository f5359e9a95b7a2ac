"""Alerts, stacks and logs of any size, many runs beside each other, a link whose time is over: in a
real browser.
"""

import json
import re
import sqlite3
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import pytest
from e2e.ended_run import HOSTILE, Run, photograph
from e2e.loop_server import BASE_MODEL, LoopServer
from playwright.sync_api import Page, Route, expect

pytestmark = pytest.mark.browser

SHOWN = "<script>document.title='owned'</script>⟨U+202E⟩evil"
MIB = 1 << 20
BLOCKED_MS = 10_000  # one task of the page, whose processor other tests use as well
WATCH_TASKS = """() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
        for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
    }).observe({ type: "longtask", buffered: true });
}"""


def answer(route: Route, body: object) -> None:
    route.fulfill(body=json.dumps(body), content_type="application/json")


def test_alerts_are_counted_lead_to_their_step_and_are_read_by_keyboard(run: Run) -> None:
    page, read = run.page, []
    alert = {
        "session_id": run.session_id,
        "session_name": HOSTILE,
        "at": "2030-01-01T00:00:00Z",
        "over_at": None,
    }
    told = [
        alert
        | {
            "id": 7,
            "rule": "reward_collapse",
            "text": f"0.1 after 0.9 {HOSTILE}",
            "step": 1,
            "is_read": False,
        },
        alert
        | {
            "id": 6,
            "rule": "stuck",
            "text": "stood still " + "x" * 2_000,
            "step": None,
            "is_read": True,
        },
    ]
    alerts = re.compile(r"/v1/alerts(\?|$)")

    def alert_list(route: Route) -> None:
        items = [one | {"is_read": one["is_read"] or bool(read)} for one in told]
        answer(
            route,
            {
                "items": items,
                "unread": sum(not one["is_read"] for one in items),
                "next_cursor": None,
            },
        )

    def alerts_read(route: Route) -> None:
        read.append(route.request.post_data_json)
        route.fulfill(status=204)

    page.route(alerts, alert_list)
    page.route("**/v1/alerts/read", alerts_read)
    page.goto("/home")
    button = page.get_by_role("button", name="Alerts, 1 not read")
    button.press("Enter")
    center = page.get_by_role("dialog", name="Alerts")
    expect(center.get_by_role("listitem")).to_have_count(2)
    expect(center).to_contain_text(f"0.1 after 0.9 {SHOWN}")
    photograph(page, "alerts")
    center.get_by_role("button", name="Mark all as read").press("Enter")
    expect(page.get_by_role("button", name="Alerts", exact=True)).to_be_visible()
    assert read == [{"upto": 7}]
    center.get_by_role("link", name=re.compile("step 1$")).press("Enter")
    expect(page).to_have_url(re.compile(f"/sessions/{run.session_id}/steps/1$"))
    expect(center).to_have_count(0)
    page.unroute(alerts)
    page.unroute("**/v1/alerts/read")


def test_stacks_and_log_lines_of_a_megabyte_are_text_and_freeze_no_tab(run: Run) -> None:
    page = run.page
    line = f"{HOSTILE}\x1b[31m\x00 "
    stacks = "\n".join([line] * (MIB // len(line)))
    data = {
        "name": "stuck",
        "cause": "No progress for 300 s.",
        "hint": "Look at the stacks.",
        "stacks": stacks,
    }
    stuck = {"cursor": 9_000_000, "kind": "event", "at": "2030-01-01T00:00:00Z", "data": data}
    events, logs = (
        re.compile(r"/v1/sessions/[^/]+/events\?"),
        re.compile(r"/v1/sessions/[^/]+/logs\?"),
    )
    page.route(events, lambda route: answer(route, {"items": [stuck], "next_cursor": 9_000_000}))
    page.route(
        logs, lambda route: answer(route, {"lines": [line * (MIB // len(line)), "the last line"]})
    )
    page.add_init_script(f"({WATCH_TASKS})()")
    page.goto(f"/sessions/{run.session_id}/health")
    faults = page.get_by_role("region", name="Restarts and faults")
    expect(faults).to_contain_text("No progress for 300 s. Look at the stacks.")
    faults.get_by_text("Stacks", exact=True).click()
    expect(faults.locator("pre")).to_contain_text(f"{SHOWN}␛[31m␀")
    expect(page.locator("pre[aria-label='Runtime log']")).to_contain_text("the last line")
    expect(page.get_by_role("button", name=re.compile("show all .* characters"))).to_have_count(2)
    photograph(page, "stacks")
    assert page.evaluate("window.longest") < BLOCKED_MS
    assert page.title().startswith("Health of ")
    page.unroute(events)
    page.unroute(logs)


def test_a_log_goes_on_where_it_was_and_finishes_the_line_that_was_not(run: Run) -> None:
    page, asked = run.page, []
    logs = re.compile(r"/v1/sessions/[^/]+/logs\?")

    def told(route: Route) -> None:
        asked.append(parse_qs(urlsplit(route.request.url).query).get("after"))
        lines = ["one", "tw"] if asked[-1] is None else ["o", "three"]
        answer(
            route,
            {
                "lines": lines,
                "cursor": "a.2.2",
                "continues": asked[-1] is not None,
                "is_cut": False,
            },
        )

    page.route(logs, told)
    page.goto(f"/sessions/{run.session_id}/health")
    log = page.locator("pre[aria-label='Runtime log']")
    expect(log).to_have_text("one\ntw\n", use_inner_text=True)
    page.get_by_role("button", name="Refresh").click()
    expect(log).to_have_text("one\ntwo\nthree\n", use_inner_text=True)
    assert asked[-1] == ["a.2.2"]
    page.unroute(logs)


def test_eight_runs_are_compared_and_the_ninth_is_not_taken(run: Run) -> None:
    page = run.page
    sessions = run.api.base_url.copy_with(path="/v1/sessions")
    others = []
    for number in range(8):
        body = {
            "base_model": BASE_MODEL,
            "name": f"sweep {number}",
            "priority": -100,
            "config": {"seed": number},
        }
        others.append(run.api.post(sessions, json=body).raise_for_status().json()["id"])
        run.api.post(f"{sessions}/{others[-1]}/stop", json={})
    page.goto("/sessions?name=sweep")
    for number in range(8):
        page.get_by_role("checkbox", name=f"Compare sweep {number}").check()
    page.get_by_role("link", name="Compare 8").click()
    runs = page.get_by_role("list", name="Compared runs").get_by_role("listitem")
    expect(runs).to_have_count(8)
    expect(page.get_by_role("region", name="Options of the runs")).to_contain_text("seed")
    expect(
        page.get_by_role("region", name="Final measures of the runs").get_by_role("row")
    ).to_have_count(9)
    photograph(page, "compare-eight")
    page.goto(f"/compare?runs={','.join([run.session_id, *others])}")  # nine in the address
    expect(runs).to_have_count(8)
    page.goto("/sessions")
    for number in range(8):
        page.get_by_role("checkbox", name=f"Compare sweep {number}").check()
    expect(page.get_by_role("checkbox", name=f"Compare {run.session_id}")).to_be_disabled()
    for session_id in others:
        run.api.delete(f"{sessions}/{session_id}")


@pytest.fixture
def stranger(run: Run) -> Page:
    """A window of somebody without an account."""
    page = run.page.context.browser.new_context().new_page()
    yield page
    page.context.close()


def test_a_link_whose_time_is_over_says_so_and_shows_nothing_of_the_run(
    run: Run, stranger: Page, loop_server: LoopServer
) -> None:
    link = run.api.post("/shares", json={"expires_in_days": 1}).raise_for_status().json()
    address = f"{loop_server.url}/shared#{link['url'].partition('#')[2]}"
    stranger.goto(address)
    expect(stranger.get_by_role("table", name="Episodes").get_by_role("row").nth(1)).to_be_visible()
    (database,) = loop_server.data.glob("console.sqlite3")
    with closing(sqlite3.connect(database, timeout=30)) as tables, tables:
        over = "UPDATE console_sharelink SET expires_at = '2020-01-01 00:00:00' WHERE id = ?"
        assert tables.execute(over, (link["id"],)).rowcount == 1
    stranger.reload()
    expect(stranger.get_by_role("heading", name="This link cannot be read")).to_be_visible()
    expect(stranger.get_by_role("table", name="Episodes")).to_have_count(0)
    photograph(stranger, "link-over")
    run.api.delete(f"/shares/{link['id']}")
