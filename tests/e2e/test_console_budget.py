"""What the page of a long run may cost a browser, in counts that no other work on the machine
moves.

Seconds and megabytes of a run of 10,000 steps are measured by
``tests/benchmarks/long_run_page.py``.
"""

import re
from collections.abc import Iterator

import pytest
from e2e.ended_run import Run
from e2e.loop_server import BASE_MODEL, LoopServer, until
from playwright.sync_api import Page, Response, expect

from support.long_record import long_record

pytestmark = pytest.mark.browser

STEPS, OTHERS = 2_000, 6_000
POINTS = 500  # that a chart shows of a run, however long it is
MOST_REQUESTS = 19  # of a first visit: the page, its files, the API, the channel
MOST_FILES = 6  # of code and looks, which a browser keeps
MOST_BYTES = 230_000  # of these, compressed
MOST_EPISODE_BYTES = 191_000  # of an episode's page
MOST_API_BYTES = 600_000  # compressed; the measures of this record are noise, which hardly shrinks
MOST_NODES = 4_000


@pytest.fixture(scope="module")
def long_run(run: Run, loop_server: LoopServer) -> Iterator[str]:
    """The path of a session that has ended with a long record."""
    sessions = run.api.base_url.copy_with(path="/v1/sessions")
    made = run.api.post(
        sessions, json={"base_model": BASE_MODEL, "name": "long", "priority": -100}
    ).raise_for_status()
    session_id = made.json()["id"]
    run.api.post(f"{sessions}/{session_id}/stop", json={}).raise_for_status()
    over = ("stopped", "cancelled")
    until(
        lambda: run.api.get(f"{sessions}/{session_id}").json()["state"] in over,
        "the session has ended",
        60,
    )
    long_record(session_id, STEPS, OTHERS, loop_server.environment)
    yield f"/sessions/{session_id}"
    run.api.delete(f"{sessions}/{session_id}")


def test_the_page_of_a_long_run_asks_for_little_and_holds_little(run: Run, long_run: str) -> None:
    with run.page.context.browser.new_context(
        storage_state=run.page.context.storage_state()
    ) as fresh:
        page, answers, channels = fresh.new_page(), list[Response](), list[str]()
        page.on("response", lambda answer: answers.append(answer))
        page.on("websocket", lambda socket: channels.append(socket.url))
        page.goto(
            f"{run.api.base_url.copy_with(path=long_run)}/charts?open=optimizer,answers,batches,speed"
        )
        charts = page.get_by_test_id("charts")
        expect(charts).to_have_attribute("data-steps", re.compile("^[1-9]"))
        expect(page.get_by_role("list", name="Marks on the charts")).to_be_visible()
        expect(charts.locator(".u-over").first).to_be_visible()
        until(lambda: len(channels) == 1, "the page has its live channel", 60)
        files = [answer for answer in answers if "/assets/" in answer.url]
        asked = [answer.url for answer in answers if not answer.url.startswith("data:")] + channels
        assert len(asked) <= MOST_REQUESTS, "\n".join(asked)
        assert len(files) <= MOST_FILES, [answer.url for answer in files]
        api = [answer for answer in answers if "/v1/" in answer.url]
        assert sum(answer.request.sizes()["responseBodySize"] for answer in api) < MOST_API_BYTES
        assert sum(answer.request.sizes()["responseBodySize"] for answer in files) < MOST_BYTES
        assert int(charts.get_attribute("data-steps")) <= POINTS
        assert page.locator("*").count() < MOST_NODES
        near = page.evaluate("[...document.querySelectorAll('[data-testid=charts] figure')].length")
        assert page.locator("[data-testid=charts] canvas").count() < near, (
            "charts far below the window are drawn"
        )


def test_an_episodes_page_loads_no_code_of_charts_and_tables(run: Run) -> None:
    """What it waits for on a telephone is its frame and what was said."""
    episode = run.api.get("/episodes", params={"sort": "best"}).json()["items"][0]["episode_id"]
    with run.page.context.browser.new_context(
        storage_state=run.page.context.storage_state()
    ) as fresh:
        page, answers = fresh.new_page(), list[Response]()
        page.on("response", lambda answer: answers.append(answer))
        address = run.api.base_url.copy_with(path=f"/sessions/{run.session_id}/episodes/{episode}")
        page.goto(str(address), wait_until="networkidle")
        expect(page.get_by_role("region", name="Conversation")).to_be_visible()
        files = [answer for answer in answers if "/assets/" in answer.url]
        assert files and not [
            answer.url for answer in files if re.search("/(plot|tables)-", answer.url)
        ]
        assert (
            sum(answer.request.sizes()["responseBodySize"] for answer in files) < MOST_EPISODE_BYTES
        )


def test_a_longer_record_costs_the_page_no_more_requests(run: Run, long_run: str) -> None:
    """Both have their history, their marks and nothing for each entry."""
    counts = [requests_of(run.page, path) for path in (long_run, f"/sessions/{run.session_id}")]
    assert counts[0] <= counts[1] + 2, counts  # the marks of before the last entries


def requests_of(page: Page, path: str) -> int:
    asked: list[str] = []

    def note(request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.goto(path, wait_until="networkidle")
    expect(page.get_by_test_id("charts")).to_have_attribute("data-steps", re.compile("^[1-9]"))
    page.remove_listener("request", note)
    return sum("/v1/" in url for url in asked)
