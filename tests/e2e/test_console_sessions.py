"""A session's pages in a real browser: check, create, watch, suspend, resume, keep and remove, and
the end by a budget.

``SCREENSHOTS=/folder`` keeps pictures of each page that is visited: light and dark, wide and
narrow.
"""

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pyarrow.parquet as parquet
import pytest
from e2e.console_pages import (
    Server,
    browser,
    charted_steps,
    make_key,
    open_place,
    page,
    pages_need,
    sign_up,
)
from e2e.loop_server import BASE_MODEL, LoopServer
from e2e.playing import play
from playwright.sync_api import Page, Route, expect

from tinkerscript import TinkerScript
from tinkerscript.wire.sessions import MemoryEstimate

__all__ = ["browser", "page"]

pytestmark = pytest.mark.browser

RUNTIME_MS = 60_000  # until a runtime is up, or has ended
LIST_AGAIN_MS = 5_000  # as use-live-list.ts has it


@pytest.fixture(scope="module")
def server(loop_server: LoopServer) -> Iterator[Server]:
    """The server of the loop's tests: one runtime at a time, with a real gateway. Skips where no
    page can be shown.
    """
    pages_need()
    yield Server(loop_server.url, loop_server.data)


def shot(page: Page, name: str) -> None:
    folder = os.environ.get("SCREENSHOTS")
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 680)) if folder else ():
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 860})
        page.screenshot(path=Path(folder) / f"{name}-{scheme}-{width}.png", full_page=True)
    if folder:
        page.emulate_media(color_scheme="null", reduced_motion="null")
        page.set_viewport_size({"width": 1280, "height": 860})


def confirm(page: Page, button: str, action: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()
    page.get_by_role("alertdialog").get_by_role("button", name=action).click()


def fill_form(page: Page, name: str, **fields: str) -> None:
    page.goto("/sessions/new")
    small = {"GRPO n": "2", "Tasks per batch": "2", "Max context length": "512", "Max tokens": "16"}
    for label, text in ({"Name": name} | small | fields).items():
        page.get_by_label(label, exact=True).fill(text)


def start_session(page: Page) -> str:
    page.get_by_role("button", name="Start session").click()
    page.wait_for_url(re.compile(r"/sessions/ses_\w+$"))
    return page.url.rsplit("/", 1)[1]


def play_batches(server: Server, secret: str, session_id: str, batches: int) -> None:
    """In a thread: the browser's own loop runs in this one."""

    def run() -> None:
        remote = TinkerScript(
            session_id=session_id, base_url=server.url, api_key=secret, begin_timeout_s=90
        )
        for _ in range(batches):
            play(remote, "mist", 4)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(run).result(120)


def test_a_session_is_checked_before_it_is_made_and_refused_at_its_fields(page: Page) -> None:
    sign_up(page, "ada@example.org")
    fill_form(
        page, "too much", **{"Max tokens": "513", "Priority": "7", "Wall time budget (h)": "0.001"}
    )
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("Must be at least 0.02.")).to_be_visible()
    expect(page.get_by_label("Wall time budget (h)")).to_be_focused()
    page.get_by_label("Wall time budget (h)").fill("2")
    page.get_by_role("button", name="Check").click()
    # only the server knows that they do not match
    expect(page.get_by_label("Max tokens", exact=True)).to_be_focused()
    expect(page.get_by_label("Max tokens", exact=True)).to_have_attribute("aria-invalid", "true")
    shot(page, "refused")

    page.get_by_label("Max tokens", exact=True).fill("16")
    page.get_by_role("button", name="Check").click()
    plan = page.get_by_role("region", name="Check")
    meter = plan.get_by_role("meter", name="Predicted memory")
    expect(meter).to_have_attribute("aria-valuetext", re.compile(r"^[\d.]+ GiB of [\d.]+ GiB$"))
    expect(plan.get_by_text("Place in the queue: 1")).to_be_visible()
    shot(page, "checked")
    page.get_by_label("Priority").fill("8")
    expect(plan).to_have_count(0)  # an answer is about what was sent

    page.route(
        "**/v1/sessions/dry-run", lambda route: route.fulfill(status=422, json=does_not_fit())
    )
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_label("Base model")).to_be_focused()
    expect(meter).to_have_attribute("aria-valuetext", "64.0 GiB of 16.0 GiB")
    expect(plan.get_by_text("It does not fit into one runtime.")).to_be_visible()
    shot(page, "no-room")

    page.goto("/sessions")
    expect(page.get_by_text("No session yet")).to_be_visible()


def does_not_fit() -> dict:
    """The API's answer about a model that is larger than any this machine refuses."""
    parts = dict.fromkeys(
        ("engine", "trainer", "optimizer", "reference", "handover", "activation", "process"), 0
    )
    sizes = parts | {"total": 64 << 30, "trainer": 48 << 30, "engine": 16 << 30}
    memory = MemoryEstimate(**{f"{part}_bytes": size for part, size in sizes.items()}).model_dump()
    details = {"memory": memory, "memory_limit_bytes": 16 << 30}
    error = {
        "code": "does_not_fit",
        "message": "It needs 64 GiB.",
        "hint": "Choose a smaller one.",
        "details": details,
    }
    return {"error": error, "request_id": "req_1"}


def test_a_session_is_suspended_resumed_ended_by_its_budget_and_deleted(
    page: Page, server: Server
) -> None:
    sign_up(page, "grace@example.org")
    secret = make_key(page)
    fill_form(page, "walk", **{"Step budget": "2", "Priority": "3"})
    session_id = start_session(page)
    state = lambda name: page.locator("main").get_by_text(name, exact=True).first  # noqa: E731
    expect(page.get_by_role("button", name="Delete", exact=True)).to_have_count(0)
    expect(state("ready")).to_be_visible(timeout=RUNTIME_MS)
    expect(page.get_by_text("newest weights only")).to_be_visible()
    open_place(page, "Settings")
    expect(page.get_by_role("region", name="Budget")).to_contain_text("0 of 2")
    page.get_by_role("button", name="Download episodes").click()
    expect(page.get_by_role("region", name="Archive").get_by_role("alert")).to_contain_text(
        "archived yet"
    )
    play_batches(server, secret, session_id, 1)
    open_place(page, "Overview")
    expect(charted_steps(page)).to_have_attribute("data-steps", "1")
    open_place(page, "Settings")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download batch").click()
    header = json.loads(saved.value.path().read_text().splitlines()[0])
    assert (header["kind"], header["session_id"], header["step"]) == ("batch", session_id, 1)
    assert saved.value.suggested_filename == f"{session_id}-batch-1.jsonl"
    page.get_by_label("Step, or the name of a refused batch").fill("99")
    page.get_by_role("button", name="Download batch").click()
    expect(page.get_by_role("region", name="Batches").get_by_role("alert")).to_contain_text(
        "no batch 99"
    )

    queue_and_watch(page, server, secret, session_id)
    page.get_by_role("tab", name="Runtime log").click()
    expect(page.get_by_label("Runtime log", exact=True).last).to_contain_text(re.compile(r"\w"))
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text(re.compile(r"^Last \d+ lines?,"))).to_be_visible()
    shot(page, "ready")

    confirm(page, "Suspend", "Suspend session")
    expect(state("suspended")).to_be_visible(timeout=RUNTIME_MS)
    expect(page.get_by_role("button", name="Suspend", exact=True)).to_have_count(0)
    keep_and_remove_checkpoints(page)
    download_episodes(page, session_id, 4)
    open_place(page, "Overview")
    confirm(page, "Resume", "Resume session")
    expect(state("ready")).to_be_visible(timeout=RUNTIME_MS)

    play_batches(server, secret, session_id, 1)
    expect(page.get_by_text("Ended by its budget")).to_be_visible(timeout=RUNTIME_MS)
    expect(page.get_by_text("Limit on steps: 2 steps used of 2 steps.")).to_be_visible()
    expect(state("stopped")).to_be_visible(timeout=RUNTIME_MS)
    shot(page, "ended")
    read_alerts(page)
    open_place(page, "Checkpoints")
    expect(
        page.get_by_role("button", name=re.compile("Files of the model checkpoint of step 2"))
    ).to_be_visible()
    open_place(page, "Overview")
    confirm(page, "Delete", "Delete session")
    page.wait_for_url("**/sessions")
    expect(page.get_by_text("No session yet")).to_be_visible()


def queue_and_watch(page: Page, server: Server, secret: str, session_id: str) -> None:
    """The queue is shown once there is one, and counted while it is played."""
    open_place(page, "Overview")
    panel = page.get_by_role("region", name="Queue of tasks")
    expect(panel).to_have_count(0)
    tasks = f"/v1/sessions/{session_id}/tasks"
    with httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {secret}"}, timeout=90
    ) as call:
        for name, judged in (("mist", False), ("rain", True)):
            body = {
                "rows": [{"name": name, "row": name}],
                "eval": True,
                "tries": 1,
                "judged": judged,
            }
            call.post(tasks, json=body).raise_for_status()
        expect(panel).to_contain_text(re.compile("0 workers.*waiting2running0"), timeout=20_000)
        advice = f"tinkerscript worker my_agent:run --session {session_id}"
        expect(panel).to_contain_text(
            re.compile(f"{advice}(?! --judge).*{advice} --judge my_judge:rank$")
        )
        for judged, error in ((False, None), (True, "ValueError: no idea")):
            asked = {"worker": "laptop", "count": 2, "judged": judged}
            (task,) = call.post(f"{tasks}/lease", json=asked).raise_for_status().json()["items"]
            expect(panel).to_contain_text(re.compile(f"1 worker.*waiting{int(not judged)}running1"))
            body = {"lease": task["lease"], "error": error}
            call.post(f"{tasks}/{task['task_id']}/finish", json=body).raise_for_status()
            if not judged:
                expect(panel).to_contain_text(f"{advice} --judge my_judge:rank")
        expect(panel).to_contain_text(re.compile("running0done1failed1"))
        expect(panel.get_by_label("Attempts that failed")).to_have_text("rain: ValueError: no idea")
    shot(page, "queue")


def download_episodes(page: Page, session_id: str, episodes: int) -> None:
    """One part comes at once; its link stays, and brings the same file."""
    open_place(page, "Settings")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download episodes").click()
    assert parquet.read_table(saved.value.path()).num_rows == episodes
    assert saved.value.suggested_filename == f"{session_id}-part-000001.parquet"
    panel = page.get_by_role("region", name="Archive")
    expect(
        panel.get_by_text(re.compile(rf"^{episodes} episodes, [\d.]+ KiB. Links are good until"))
    ).to_be_visible()
    with page.expect_download() as again:
        panel.get_by_role("link", name="part-000001.parquet").click()
    assert again.value.path().read_bytes() == saved.value.path().read_bytes()


def read_alerts(page: Page) -> None:
    """A budget of two steps was half used, then wholly: the page says so, and the list until it is
    read.
    """
    page.reload()
    events = page.get_by_role("tabpanel", name="Events")
    # a long event is a summary and, folded, its whole text
    summary = events.locator("summary", has_text="100% of the limit steps is used: 2 of 2")
    expect(summary).to_be_visible()
    page.get_by_role("button", name="Alerts, 2 not read").click()
    center = page.get_by_role("dialog", name="Alerts")
    expect(center.get_by_role("listitem")).to_have_count(2)
    expect(center.get_by_role("listitem").first).to_contain_text("Budget")
    shot(page, "alerts")
    center.get_by_role("button", name="Mark all as read").click()
    expect(center.get_by_text("new", exact=True)).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Alerts", exact=True)).to_be_focused()


def keep_and_remove_checkpoints(page: Page) -> None:
    """The state that a suspended session goes on from can be pinned, and cannot be deleted."""
    open_place(page, "Checkpoints")
    panel = page.get_by_role("region", name="Checkpoints")
    panel.get_by_role("button", name="Pin the state checkpoint of step 1").first.click()
    unpin = panel.get_by_role("button", name="Unpin the state checkpoint of step 1")
    expect(unpin).to_have_attribute("aria-pressed", "true")
    expect(panel.get_by_text(re.compile(r"[\d.]+ (B|KiB) in all"))).to_be_visible()
    panel.get_by_role("button", name="Delete the state checkpoint of step 1").first.click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete checkpoint").click()
    expect(panel.get_by_role("alert")).to_contain_text("would resume from this checkpoint")
    unpin.click()
    expect(
        panel.get_by_role("button", name="Pin the state checkpoint of step 1").first
    ).to_be_visible()


def test_the_list_is_narrowed_by_state_and_name_and_read_page_by_page(
    page: Page, server: Server
) -> None:
    sign_up(page, "alan@example.org")
    make = """async ([model, names]) => {
        const token = document.cookie.match(/csrftoken=([^;]+)/)[1];
        const headers = { "Content-Type": "application/json", "X-CSRFToken": token };
        for (const name of names) {
            const body = JSON.stringify({ base_model: model, name, priority: -100 });
            const answer = await fetch("/v1/sessions", { method: "POST", headers, body });
            const { id } = await answer.json();
            await fetch(`/v1/sessions/${id}/stop`, { method: "POST", headers, body: "{}" });
        }
    }"""
    page.evaluate(make, [BASE_MODEL, [f"run {index}" for index in range(51)]])
    page.goto("/sessions")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    held: list[Route] = []
    page.route(
        re.compile(r"/v1/sessions\?.*cursor="),
        lambda route: route.continue_() if held else held.append(route),
    )
    page.get_by_role("button", name="Show older").click()
    # the list is asked for anew some seconds after a change: the older page is not lost by that
    page.evaluate(make, [BASE_MODEL, ["late"]])
    page.wait_for_timeout(LIST_AGAIN_MS + 2_000)
    held[0].continue_()
    expect(rows).to_have_count(52)
    expect(page.get_by_role("button", name="Show older")).to_have_count(0)

    page.get_by_label("Name or id contains").fill("RUN 5")
    expect(rows).to_have_count(2)
    assert page.url.endswith("?name=RUN+5")
    # a runtime that was just started for one of them ends first
    page.get_by_label("State").select_option("ended")
    expect(rows).to_have_count(2, timeout=RUNTIME_MS)
    page.get_by_label("State").select_option("failed")
    expect(page.get_by_text("No session matches")).to_be_visible()
    page.get_by_role("link", name="Show all sessions").click()
    expect(page.get_by_label("Name or id contains")).to_have_value("")
    expect(rows).to_have_count(52)
    shot(page, "list")

    account = page.request.get("/v1/account").json()
    account["projects"][0]["role"] = "viewer"
    page.route("**/v1/account", lambda route: route.fulfill(json=account))
    page.goto("/sessions")
    expect(rows).to_have_count(50)
    # who may only look is offered no more
    expect(page.get_by_role("link", name="New session")).to_have_count(0)
    page.get_by_role("link", name="run 50").click()
    expect(page.get_by_role("region", name="Episodes")).to_be_visible()
    expect(page.get_by_role("button", name="Delete", exact=True)).to_have_count(0)
