"""What a movement of the slider of smoothing costs: from its input to the paint of the curves.

    .venv/bin/python tests/benchmarks/smoothing_slider.py [--inputs 34]

Conditions: a server on this machine with fake engines, the record of a run played to its page over
the page's own channel, the long one's written to the server's tables; Chromium without a screen at
1440 x 900, the charts that are shown at first. Each input is a value of the slider from 0 to 0.99.
Real runs: the demo run with all of its measures, and one run of each task that tests/learning
trained and of each example, of which rewards and held-out scores were kept. Beside them one of
10,000 steps, which is made.

points      of each curve
p50, p95,   from an input to the first frame after the last line of its curves, ms
max
CPU         of the page's process for an input, mean, ms
lines       what the curves of one input put on the page's canvases, at most
"""

import argparse
import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests"), str(ROOT / "tests/benchmarks")]

from e2e.loop_server import LoopServer  # noqa: E402
from e2e.played_record import PLAYED_FROM, Played, make_session, metric  # noqa: E402
from lighthouse import signed_up  # noqa: E402
from long_run_page import long_run, task_seconds  # noqa: E402

from support.chromium import CHROMIUM, SWITCHES  # noqa: E402

DEMO = ROOT / "api/demo_run/events.jsonl"
CURVES = ROOT / "tests/learning/curves"
LONG_STEPS, LONG = 10_000, "10,000 steps"
WATCH = """
window.lines = 0;
window.drawnAt = 0;
const { lineTo } = Path2D.prototype, { stroke } = CanvasRenderingContext2D.prototype;
Path2D.prototype.lineTo = function (...place) {
    window.lines += 1;
    return lineTo.apply(this, place);
};
CanvasRenderingContext2D.prototype.stroke = function (...path) {
    window.drawnAt = performance.now();
    return stroke.apply(this, path);
};
"""
# One input after the other, each when the curves of the one before stand still.
MOVE = """async ([slider, inputs]) => {
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
    const frame = () => new Promise(requestAnimationFrame);
    const took = [], lines = [];
    for (let at = 1; at <= inputs; at += 1) {
        window.lines = 0;
        const began = performance.now();
        set.call(slider, String(Math.round((99 * at) / inputs) / 100));
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        let painted = 0;
        // Until nothing was drawn for so long that no curve of this input is to come.
        const isOver = (now) => now >= Math.max(began + 200, window.drawnAt + 150);
        for (let now = began; !isOver(now); now = await frame())
            if (window.drawnAt > began && painted <= window.drawnAt) painted = performance.now();
        if (painted) took.push(painted - began);
        lines.push(window.lines);
    }
    return { took, lines };
}"""


def records() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Name and record of each real run."""
    demo = map(json.loads, DEMO.read_text().splitlines())
    kinds = ("metric", "evaluation")
    yield (
        "demo run",
        [one | {"cursor": PLAYED_FROM + at} for at, one in enumerate(demo) if one["kind"] in kinds],
    )
    for path in sorted(CURVES.rglob("*-seed0.json")):
        yield path.stem.removesuffix("-seed0"), curve_record(json.loads(path.read_text()))


def curve_record(curve: dict[str, Any]) -> list[dict[str, Any]]:
    """What was kept of a run: rewards by step, and held-out scores."""
    rewards = curve["rewards"]
    of_episodes = {"reward_p10": None, "reward_p90": None}  # which were not kept
    steps = [metric(at, reward_mean=one, **of_episodes) for at, one in enumerate(rewards, 1)]
    scores = [
        {
            "cursor": steps[-1]["cursor"] + at,
            "kind": "evaluation",
            "at": steps[-1]["at"],
            "data": {
                "name": "held out",
                "step": one["step"],
                "reward_mean": one["score"],
                "reward_std": None,
                "success_rate": None,
                "episodes": curve["held_out"],
                "failed": 0,
                "by_task": {},
                "metrics": {},
            },
        }
        for at, one in enumerate(curve.get("scores", []), 1)
    ]
    return [*steps, *scores]


def played_run(page: Page, name: str, record: list[dict[str, Any]]) -> None:
    """A run's charts, which have its record."""
    session_id = make_session(page, name)
    played = Played(page)
    page.goto(f"/sessions/{session_id}/charts")
    played.send(*record)
    charts = page.get_by_test_id("charts")
    steps = sum(one["kind"] == "metric" for one in record)
    expect(charts).to_have_attribute("data-steps", str(steps), timeout=60_000)


def measure(page: Page, inputs: int) -> dict[str, Any]:
    """Move the slider of charts that have their record."""
    page.locator(".u-over").first.wait_for(timeout=60_000)
    page.wait_for_timeout(2000)
    slider = page.get_by_role("slider", name="Smoothing").element_handle()
    browser = page.context.new_cdp_session(page)
    browser.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = task_seconds(browser)
    found = page.evaluate(MOVE, [slider, inputs])
    return found | {"cpu_ms": (task_seconds(browser) - before) / inputs * 1000}


def row(name: str, points: str | None, found: dict[str, Any]) -> str:
    took, most = spread(found["took"]), max(found["lines"])
    return f"| {name} | {points} | {took} | {found['cpu_ms']:.1f} | {most} |"


def spread(took: list[float], sign: str = " | ") -> str:
    """p50, p95 and the most."""
    by_length = sorted(took)
    p95 = by_length[math.ceil(0.95 * len(took)) - 1]
    return sign.join(f"{one:.0f}" for one in (median(took), p95, by_length[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=34)
    asked = parser.parse_args()
    every: list[float] = []
    print(
        "| run | points | p50 ms | p95 ms | max ms | CPU ms | lines |\n"
        "| --- | --- | --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = LoopServer(Path(folder))
        try:
            server.start()
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=SWITCHES)
            context = browser.new_context(
                base_url=server.url, viewport={"width": 1440, "height": 900}
            )
            context.add_init_script(WATCH)
            client = signed_up(server)
            context.add_cookies(
                [
                    {"name": name, "value": value, "url": server.url}
                    for name, value in client.cookies.items()
                ]
            )
            for name, record in [*records(), (LONG, [])]:
                page = context.new_page()
                page.goto("/home")
                if record:
                    played_run(page, name, record)
                else:
                    page.goto(f"/sessions/{long_run(server, client, LONG_STEPS, 0)}/charts")
                    charts = page.get_by_test_id("charts")
                    charted = re.compile("^[1-9]")
                    expect(charts).to_have_attribute("data-steps", charted, timeout=60_000)
                points = page.get_by_test_id("charts").get_attribute("data-steps")
                found = measure(page, asked.inputs)
                page.close()
                every += found["took"]
                print(row(name, points, found), flush=True)
            browser.close()
        finally:
            server.close()
    within = sum(one <= 100 for one in every)
    print(f"all: p50, p95, max {spread(every, ', ')} ms; {within} of {len(every)} within 100 ms")


if __name__ == "__main__":
    main()
