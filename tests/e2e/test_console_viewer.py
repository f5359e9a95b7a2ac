"""A run that ended is exported and shown without its server: the same answers, the same pages, and
nothing else.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

import httpx
import pytest
from e2e.ended_run import Run, photograph
from e2e.loop_server import LoopServer
from playwright.sync_api import Page, expect

from support.chromium import WITHIN_MS
from tinkerscript.connection.transport import Transport
from tinkerscript.sessions.session import Session
from tinkerscript.viewer.run_folder import RunFolder
from tinkerscript.viewer.server import Viewer
from tinkerscript.wire.reading.trajectories import EpisodeSort

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def viewer(
    loop_server: LoopServer, played, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Viewer]:
    """The run as `tinkerscript record` brought it home, twice: the second time there is nothing to
    bring.
    """
    folder = tmp_path_factory.mktemp("home") / "run"
    with closing(Transport(loop_server.url, played.key)) as transport:
        for _ in range(2):
            assert (
                Session(transport, run.session_id).download_record(folder, progress=False) == folder
            )
    with Viewer(RunFolder(folder)) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.05,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def page(run: Run, viewer: Viewer) -> Iterator[Page]:
    """The browser of the ended run, in a window that no one has signed in with."""
    context = run.page.context.browser.new_context(
        base_url=f"http://{viewer.host}", viewport={"width": 1440, "height": 900}
    )
    context.set_default_timeout(WITHIN_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on(
        "request",
        lambda sent: (
            errors.append(sent.url) if not sent.url.startswith(f"http://{viewer.host}/") else None
        ),
    )
    page.on("websocket", lambda opened: errors.append(opened.url))
    page.goto(viewer.address)
    yield page
    context.close()
    assert errors == []


def test_the_viewer_answers_as_the_server_does(run: Run, viewer: Viewer) -> None:
    with httpx.Client(
        base_url=f"http://{viewer.host}/v1/sessions/{run.session_id}", timeout=90
    ) as offline:
        offline.get(viewer.address)
        listed = run.api.get("/episodes", params={"sort": "newest", "limit": 100}).json()["items"]
        paths = [
            "", "/usage", "/checkpoints", "/tasks", "/resources?points=1000", "/logs?lines=50", "/logs?lines=9&q=READY",
            f"/logs?after={quote(run.api.get('/logs?lines=5').json()['cursor'])}", "/events?newest=true&marks=true",
            "/events?marks=true&spread=true&limit=1", "/events?marks=true&spread=true&limit=1000",
            "/events?newest=true&kind=state&kind=event&limit=1000", "/events?newest=true&kind=metric&limit=1",
            *(f"/metrics?x={axis}&points=1000" for axis in ("step", "time", "tokens", "episodes")), "/steps/1",
            "/metrics?names=reward_mean&points=1", "/metrics?points=1&extremes=false", "/steps/9",
            *(f"/episodes?sort={sort.value}&limit=100" for sort in EpisodeSort),
            "/episodes?sort=newest&limit=100&fate=trained&task=mist", "/episodes?sort=newest&eval=true",
            "/episodes?sort=newest&q=MIST&reward_min=0.1&version=0",
            "/episodes/facets", "/episodes/facets?fate=trained&task=mist&reward_min=0.1", "/episodes/facets?q=nothing",
            "/episodes/nearest", "/episodes/nearest?held_out=true", "/episodes/nearest?from_version=1&to_version=0",
            "/episodes?sort=newest&step=1&fate=abandoned&fate=trained", "/episodes/none",
            *(f"/episodes/{one['episode_id']}/timelines?limit=5000&cursor=0" for one in listed if one["has_tokens"]),
            f"/episodes/{listed[-1]['episode_id']}/timelines?limit=3&cursor=4", "/episodes/none/neighbours",
            *(f"/episodes/{one['episode_id']}/neighbours?sort=best&fate=trained" for one in listed),
        ]  # fmt: skip
        for path in paths:
            served, shown = (
                each.get(str(each.base_url).rstrip("/") + path) for each in (run.api, offline)
            )
            assert served.status_code == shown.status_code, path
            expected, told = served.json(), shown.json()
            if served.status_code == 200:
                assert told == expected, path
            else:
                assert told["error"]["code"] == expected["error"]["code"], path
    assert len([path for path in paths if "timelines" in path]) == 11


def test_in_a_narrow_window_the_pages_of_the_run_are_behind_a_button(page: Page, run: Run) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/sessions/{run.session_id}")
    name, menu = page.get_by_role("heading", level=1), page.get_by_role("button", name="Menu")
    expect(name).to_be_visible()
    assert name.bounding_box()["y"] < 844 / 4
    steps = page.get_by_role("link", name="Steps", exact=True)
    expect(steps).to_have_count(0)
    menu.click()
    expect(menu).to_have_attribute("aria-expanded", "true")
    steps.click()
    expect(page).to_have_url(re.compile(r"/steps$"))
    expect(steps).to_have_count(0)
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(steps).to_be_visible()
    expect(menu).to_have_count(0)
    page.goto(f"/sessions/{run.session_id}")


def test_the_run_its_episodes_and_tokens_are_read_without_a_server(page: Page, run: Run) -> None:
    expect(page).to_have_url(re.compile(f"/sessions/{run.session_id}$"))
    expect(page.get_by_text("Exported run, as it was on")).to_be_visible()
    expect(page.get_by_test_id("charts")).to_be_visible()
    assert (
        page.get_by_role("button", name=re.compile("Pin|Stop|Delete|Make a link|Download")).count()
        == 0
    )
    assert (
        page.get_by_role("link", name=re.compile("API keys|Usage|Playground|Compare")).count() == 0
    )
    photograph(page, "viewer-run")
    page.get_by_role("link", name="Episodes", exact=True).click()
    rows = page.get_by_role("table", name="Episodes").get_by_role("row")
    expect(rows).to_have_count(11)
    expect(
        page.get_by_text("<script>document.title='owned'</script>⟨U+202E⟩evil").first
    ).to_be_visible()
    page.get_by_role("searchbox", name="Task").fill("mist")
    page.get_by_role("combobox", name="Fate").select_option("trained")
    expect(rows).to_have_count(5)
    rows.nth(1).get_by_role("link").first.click()
    expect(page.get_by_role("region", name="Conversation")).to_be_visible()
    page.get_by_role("button", name="Tokens", exact=True).click()
    expect(page.locator("[data-token]").first).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(
        page.get_by_role("complementary", name="Token").get_by_text("Log-probability", exact=True)
    ).to_be_visible()
    photograph(page, "viewer-episode")
    page.get_by_role("link", name="step 1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Step 1")
    expect(page.get_by_role("region", name=re.compile(r"^Answer \d"))).to_have_count(4)
    page.goto(f"/sessions/{run.session_id}/health")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    photograph(page, "viewer-health")


def test_pages_that_need_a_server_say_so(page: Page, run: Run) -> None:
    for path in ("/keys", "/usage", "/playground", "/sessions/new"):
        page.goto(path)
        expect(page.get_by_role("heading", name="This page needs a server")).to_be_visible()
    page.get_by_role("link", name="The run").click()
    expect(page.get_by_test_id("charts")).to_be_visible()
    page.goto("/sessions")
    expect(page).to_have_url(re.compile(f"/sessions/{run.session_id}$"))
