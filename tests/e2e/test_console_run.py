"""A run's page: charts that fold and are marked, and what a live run is at now."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from e2e.console_pages import ROOT, browser, page, server, sign_up
from e2e.played_record import PLAYED_FROM, Played, make_session, metric
from playwright.sync_api import Page, expect

from support.chromium import WITHIN_MS

__all__ = ["browser", "page", "server"]

pytestmark = pytest.mark.browser

AT = "2030-01-01T00:00:00Z"
# What `make quickstart` recorded: its learning rate, updates and weight of the entropy are
# constant.
QUICKSTART = ROOT / "tests/support/quickstart_steps.json"


def entry(number: int, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"cursor": PLAYED_FROM + number, "kind": kind, "at": AT, "data": data}


def test_the_slider_of_smoothing_draws_the_quickstart_at_every_value_under_every_option(
    page: Page,
) -> None:
    """A range without a tick made uPlot's loop endless: seconds without an answer, then a
    RangeError on the page.
    """
    sign_up(page, "sonia@example.org")
    session_id = make_session(page, "smooth")
    played = Played(page)
    page.goto(f"/sessions/{session_id}/charts")
    steps = json.loads(QUICKSTART.read_text())
    edges = {"entropy": 1e300, "kl_engine": 5e-324, "clip_fraction": -1.7e308, "kl_before": 0.1}
    played.send(*(metric(**step) for step in steps), *(metric(9 + at, **edges) for at in range(20)))
    expect(page.get_by_test_id("charts")).to_have_attribute("data-steps", "28")
    slider, canvases = page.get_by_role("slider", name="Smoothing"), page.locator("canvas")
    expect(canvases.first).to_be_visible()
    for part in ("", "y=log", "y=log&zoom=3~7", "zoom=9~9.5"):
        page.evaluate("part => history.replaceState(history.state, '', `?${part}`)", part)
        page.evaluate(
            "() => dispatchEvent(new PopStateEvent('popstate', { state: history.state }))"
        )
        slider.evaluate(
            """async (slider) => {
                const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
                for (let percent = 0; percent <= 99; percent += 3) {
                    set.call(slider, String(percent / 100));
                    slider.dispatchEvent(new Event("input", { bubbles: true }));
                    await new Promise((drawn) => setTimeout(drawn, 80));
                }
            }"""
        )
        expect(page).to_have_url(re.compile(r"smooth=0\.99"))
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 8, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2, steps=30)
    page.mouse.up()
    page.wait_for_url(re.compile(r"smooth=0\.[89]"), timeout=WITHIN_MS)


def test_the_slider_counts_each_key(page: Page) -> None:
    sign_up(page, "keyla@example.org")
    page.goto(f"/sessions/{make_session(page, 'keys')}/charts")
    slider = page.get_by_role("slider", name="Smoothing")
    slider.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    expect(slider).to_have_value("0.1")
    expect(page).to_have_url(re.compile(r"smooth=0\.1$"))
    page.keyboard.press("Home")
    expect(page).not_to_have_url(re.compile("smooth"))


def test_five_charts_are_shown_and_the_others_open_by_keyboard_and_after_a_reload(
    page: Page,
) -> None:
    sign_up(page, "fiona@example.org")
    session_id = make_session(page, "folding")
    page.goto(f"/sessions/{session_id}?y=log")  # where the charts were before they had a page
    charts = page.get_by_test_id("charts").get_by_role("img")
    expect(charts).to_have_count(5)
    rate = page.get_by_role("img", name=re.compile("^Learning rate"))
    optimizer = page.get_by_role("button", name="Optimizer")
    optimizer.press("Enter")
    expect(optimizer).to_have_attribute("aria-expanded", "true")
    expect(rate).to_have_count(1)
    page.get_by_role("button", name="Speed").click()
    expect(page).to_have_url(re.compile(r"\?y=log&open=optimizer%2Cspeed$"))
    page.reload()
    expect(optimizer).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("img", name=re.compile("^(Learning rate|Step time)"))).to_have_count(2)
    optimizer.press("Space")
    expect(rate).to_have_count(0)
    expect(page).to_have_url(re.compile(r"open=speed$"))
    every = page.get_by_role("button", name=re.compile(r"^Show all \d+ charts$"))
    count = int(re.findall(r"\d+", every.inner_text())[0])
    every.click()
    assert count > 20
    expect(charts).to_have_count(count)
    page.get_by_role("button", name="Show the first charts").click()
    expect(charts).to_have_count(5)
    expect(page).to_have_url(re.compile(r"\?y=log$"))


def test_what_agents_measure_is_drawn_what_is_constant_is_a_value_and_a_chart_is_saved(
    page: Page,
) -> None:
    sign_up(page, "owen@example.org")
    session_id = make_session(page, "own")
    played = Played(page)
    page.goto(f"/sessions/{session_id}?open=own,optimizer")
    evaluation = {"name": "held out", "step": 0, "reward_mean": 0.25, "episodes": 8, "failed": 0}
    evaluation |= {"by_task": {}, "metrics": {}, "reward_std": None, "success_rate": None}
    steps = [
        metric(n, metrics={"turns": n, "reward/format": 0.5}, learning_rate=3e-5)
        for n in range(1, 9)
    ]
    played.send(*steps, entry(30, "evaluation", evaluation))
    reward = page.get_by_role(
        "img", name=re.compile(r"^Reward by step; at step 8: training 0\.08, held out 0\.25 at")
    )
    expect(reward).to_be_visible()
    expect(
        page.get_by_role("img", name=re.compile("^turns by step; at step 8: turns 8"))
    ).to_be_visible()
    constant = page.locator("dl[aria-label='Constant over the run']")
    expect(constant.filter(has_text="format")).to_contain_text("0.5")
    expect(constant.filter(has_text="Learning rate")).to_contain_text("3e-5")
    expect(page.get_by_role("img", name=re.compile("^Learning rate"))).to_have_count(0)
    expect(page.locator("canvas").first).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save Reward as CSV").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0] == 'step,training,"training, low","training, high",held out'
    assert (lines[1], lines[-1]) == ("0,,,,0.25", "8,0.08,0,1,")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save Reward as PNG").click()
    assert saved.value.suggested_filename == "reward.png"
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")


def test_charts_are_marked_where_something_happened_and_say_what_by_mouse_and_keyboard(
    page: Page,
) -> None:
    sign_up(page, "mark@example.org")
    session_id = make_session(page, "marked")
    played = Played(page)
    page.goto(f"/sessions/{session_id}/charts")
    evaluation = {
        "name": "held out",
        "step": 12,
        "reward_mean": 0.25,
        "episodes": 8,
        "failed": 0,
        "by_task": {},
        "metrics": {},
        "reward_std": None,
        "success_rate": None,
    }
    refused = {"name": "step_refused", "step": 18, "reason": "the loss is not finite"}
    committed = {
        "name": "checkpoint_committed",
        "kind": "state",
        "step": 5,
        "checkpoint_id": "ckp_1",
        "size_bytes": 9,
    }
    played.send(
        *(metric(step) for step in range(1, 21)),
        entry(30, "event", committed),
        entry(31, "evaluation", evaluation),
        entry(32, "event", refused),
        entry(33, "state", {"from": "ready", "to": "queued", "reason": "the runtime ended"}),
    )
    legend = page.get_by_role("list", name="Marks on the charts").get_by_role("listitem")
    kinds = ("Checkpoint 1", "Evaluation 1", "Refused step 1", "Restart 1")
    expect(legend).to_have_text([re.compile(kind) for kind in kinds])
    marks = page.get_by_role("list", name="Marked steps").get_by_role("link")
    # of one chart: the others have the same ones, and are passed over
    expect(marks).to_have_count(4)
    refusal = page.get_by_role("link", name="Step 18 was refused: the loss is not finite")
    said = refusal.locator("span")
    expect(said).to_be_hidden()
    refusal.hover()
    expect(said).to_be_visible()
    page.mouse.move(0, 0)
    expect(said).to_be_hidden()

    reward = (
        page.get_by_role("img", name=re.compile("^Reward by step"))
        .locator(".u-over")
        .bounding_box()
    )
    assert reward is not None
    for name, step in (
        ("^Checkpoint of step 5 .state.", 5),
        ("^Evaluation held out at step 12: mean reward 0.25", 12),
    ):
        box = page.get_by_role("link", name=re.compile(name)).bounding_box()
        assert box is not None
        middle = box["x"] + box["width"] / 2
        assert middle == pytest.approx(reward["x"] + reward["width"] * (step - 1) / 19, abs=2)

    marks.first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(refusal).to_be_focused()
    expect(said).to_be_visible()
    page.keyboard.press("Home")
    expect(marks.first).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/steps/18$"))


def test_the_buttons_of_a_run_without_a_name_stand_in_one_row(page: Page) -> None:
    sign_up(page, "hattie@example.org")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/sessions/new")
    page.get_by_role("button", name="Start session").click()
    page.wait_for_url(re.compile(r"/sessions/ses_\w+$"))
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    # it has a runtime: the name has no phase beside it
    expect(page.get_by_role("region", name="Now")).to_be_visible()
    stop = page.get_by_role("button", name="Stop", exact=True)
    expect(stop).to_be_visible()
    tops = {
        round(each.bounding_box()["y"])
        for each in (page.get_by_role("button", name="Export model"), stop)
    }
    heading = page.get_by_role("heading", level=1).bounding_box()
    assert len(tops) == 1
    assert abs(heading["y"] + heading["height"] / 2 - tops.pop() - 16) < 4
    stop.click()
    page.get_by_role("alertdialog").get_by_role("button", name="Stop session").click()


def test_a_view_is_saved_pinned_opened_on_another_run_renamed_and_removed(page: Page) -> None:
    sign_up(page, "vivi@example.org")
    first, other = make_session(page, "first"), make_session(page, "other")
    page.goto(f"/sessions/{first}?x=tokens&open=speed")
    page.get_by_role("button", name="Views…").click()
    views = page.get_by_role("dialog", name="Saved views")
    views.get_by_label("Save what is shown now as").fill("By tokens")
    views.get_by_role("button", name="Save view").click()
    entry = views.get_by_role("list", name="Views").get_by_role("listitem")
    expect(entry).to_have_count(1)
    views.get_by_role("button", name="Pin By tokens").click()
    expect(views.get_by_role("button", name="Unpin By tokens")).to_be_visible()
    views.get_by_label("Save what is shown now as").fill("By tokens")
    views.get_by_role("button", name="Save view").click()
    expect(views.get_by_role("alert")).to_contain_text("A view of this name is there already")
    page.keyboard.press("Escape")
    expect(views).to_have_count(0)

    page.goto(f"/sessions/{other}?y=log")
    pinned = page.get_by_role("link", name="By tokens")
    expect(page.get_by_role("button", name="Speed")).to_have_attribute("aria-expanded", "false")
    pinned.press("Enter")
    expect(page).to_have_url(re.compile(r"\?x=tokens&open=speed$"))
    expect(pinned).to_have_attribute("aria-current", "true")
    expect(page.get_by_label("Over")).to_have_value("tokens")
    expect(page.get_by_role("button", name="Speed")).to_have_attribute("aria-expanded", "true")

    page.get_by_role("button", name="Views…").click()
    views.get_by_role("button", name="Rename By tokens").click()
    views.get_by_label("New name of By tokens").fill("Tokens")
    page.keyboard.press("Enter")
    expect(views.get_by_role("link", name="Tokens")).to_be_visible()
    views.get_by_role("button", name="Remove Tokens").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove view").click()
    expect(views.get_by_text("None yet.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(pinned).to_have_count(0)
