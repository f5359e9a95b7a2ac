"""What the page of a long run costs a browser: 10,000 steps and 90,000 other entries of its record.

    .venv/bin/python tests/benchmarks/long_run_page.py [--steps 10000] [--others 90000]

Conditions: a whole server on this machine, the record written to its tables at once, the run ended;
Chromium without a screen at 1440 x 900, its person signed in, the page opened once before (its code
is kept, its data is not).

painted     until the page's largest part stood there (LCP), and until its charts had the steps
requests    of one opening of the page, its channel among them: those that reach the server, and those for code that the
            browser has kept, which reach nobody
blocked     what long tasks took above 50 ms each until the charts stood for two seconds, as Lighthouse's blocking time
shift       of the layout while the page came (CLS)
nodes       elements of the page
heap        of the page's script after a collection, in MB
hover       processor time of the page's process for one movement of the mouse over the first chart, of 60; a movement
            moves the cursor of every chart that is drawn
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

import httpx
from playwright.sync_api import CDPSession, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests"), str(ROOT / "tests/benchmarks")]

from e2e.loop_server import BASE_MODEL, LoopServer, until  # noqa: E402
from lighthouse import signed_up  # noqa: E402

from support.chromium import CHROMIUM, SWITCHES  # noqa: E402
from support.long_record import long_record  # noqa: E402

MOVES = 60
LARGEST = """new Promise((done) => new PerformanceObserver((list) =>
    done(list.getEntries().at(-1).startTime)).observe({ type: "largest-contentful-paint", buffered: true }))"""
WATCH = """
window.shift = 0;
window.blocked = 0;
new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (!one.hadRecentInput) window.shift += one.value;
}).observe({ type: "layout-shift", buffered: true });
new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.blocked += task.duration - 50;
}).observe({ type: "longtask", buffered: true });
"""


def long_run(server: LoopServer, client: httpx.Client, steps: int, others: int) -> str:
    """The id of a session that has ended and has so long a record."""
    body = {"base_model": BASE_MODEL, "priority": -100}
    session_id = client.post("/v1/sessions", json=body).raise_for_status().json()["id"]
    client.post(f"/v1/sessions/{session_id}/stop", json={}).raise_for_status()
    over = ("stopped", "cancelled")
    until(
        lambda: client.get(f"/v1/sessions/{session_id}").json()["state"] in over,
        "the session has ended",
        60,
    )
    long_record(session_id, steps, others, server.environment)
    return session_id


def task_seconds(browser: CDPSession) -> float:
    """Processor time of the page's tasks so far."""
    measured = browser.send("Performance.getMetrics")["metrics"]
    return next(one["value"] for one in measured if one["name"] == "TaskDuration")


def measure(page: Page, url: str) -> dict[str, float]:
    """Open the page once and look at it."""
    asked: list[str] = []
    kept: list[str] = []
    page.on("websocket", lambda socket: asked.append(socket.url))
    browser = page.context.new_cdp_session(page)
    browser.send("Performance.enable", {"timeDomain": "threadTicks"})
    browser.send("Network.enable")
    browser.on("Network.requestWillBeSent", lambda told: asked.append(told["request"]["url"]))
    browser.on("Network.requestServedFromCache", lambda told: kept.append(told["requestId"]))
    browser.on(
        "Network.responseReceived",
        lambda told: told["response"].get("fromDiskCache") and kept.append("disk"),
    )
    page.add_init_script(WATCH)
    page.goto(url)
    # No condition as a string in the page: its policy allows none.
    expect(page.get_by_test_id("charts")).to_have_attribute(
        "data-steps", re.compile("^[1-9]"), timeout=60_000
    )
    charted_s = page.evaluate("performance.now()") / 1000
    chart = page.locator(".u-over").first
    chart.wait_for()
    page.wait_for_timeout(2000)
    requests, from_cache = len(asked) - len(kept), len(kept)
    blocked_ms, shift = page.evaluate("[window.blocked, window.shift]")
    box = chart.bounding_box()
    assert box is not None
    before = task_seconds(browser)
    for move in range(MOVES):
        page.mouse.move(
            box["x"] + box["width"] * (move + 1) / (MOVES + 1), box["y"] + box["height"] / 2
        )
    page.evaluate("new Promise(requestAnimationFrame)")
    hover_ms = (task_seconds(browser) - before) / MOVES * 1000
    browser.send("HeapProfiler.collectGarbage")
    heap_mb = browser.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    painted_s = page.evaluate(LARGEST) / 1000
    return {
        "painted_s": painted_s,
        "charts_s": charted_s,
        "requests": requests,
        "kept": from_cache,
        "blocked_ms": blocked_ms,
        "shift": shift,
        "nodes": page.locator("*").count(),
        "heap_mb": heap_mb,
        "hover_ms": hover_ms,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--others", type=int, default=90_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = LoopServer(Path(folder))
        try:
            server.start()
            client = signed_up(server)
            url = f"{server.url}/sessions/{long_run(server, client, asked.steps, asked.others)}/charts"
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=SWITCHES)
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            context.add_cookies(
                [
                    {"name": name, "value": value, "url": server.url}
                    for name, value in client.cookies.items()
                ]
            )
            for _ in range(2):  # the second opening counts
                page = context.new_page()
                found = measure(page, url)
                page.close()
            browser.close()
            print(json.dumps({name: round(value, 2) for name, value in found.items()}))
        finally:
            server.close()


if __name__ == "__main__":
    main()
