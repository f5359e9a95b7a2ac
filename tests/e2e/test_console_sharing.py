"""How a run fared, and what somebody without an account reads of it by a link, in a real
browser.
"""

import re

import pytest
from e2e.ended_run import Run, photograph
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_an_ended_run_shows_its_phases_its_machine_and_its_log(run: Run) -> None:
    page = run.page
    page.goto(f"/sessions/{run.session_id}")
    page.get_by_role("link", name="Health", exact=True).click()
    phases = page.get_by_role("list", name="Phases").get_by_role("listitem")
    expect(phases.filter(has_text="waiting for episodes")).to_contain_text("limit 2 min")
    expect(page.get_by_text("Waiting for your program is not stuck.")).to_be_visible()
    expect(
        page.get_by_role("img", name=re.compile(r"^CPU by time; at .*: this runtime [\d.e-]+"))
    ).to_be_visible()
    expect(page.get_by_role("region", name="Restarts and faults")).to_contain_text("None.")
    log = page.locator("pre[aria-label='Runtime log']")
    expect(log).to_be_visible()  # the runtime is gone
    page.get_by_label("Lines that contain").fill("no such line")
    expect(page.get_by_text("No line contains it.")).to_be_visible()
    expect(page).to_have_url(re.compile("log=no"))
    photograph(page, "health")


def test_a_viewer_finds_on_no_page_of_a_run_what_would_be_refused(run: Run) -> None:
    page = run.page
    account = page.request.get("/v1/account").json()
    account["projects"] = [project | {"role": "viewer"} for project in account["projects"]]
    page.route("**/v1/account", lambda route: route.fulfill(json=account))
    episode = run.api.get("/episodes", params={"sort": "best"}).json()["items"][0]["episode_id"]
    shown = {"": "Learning", "/settings": "Options", f"/episodes/{episode}": "Advantage"}
    refused = re.compile("^(Ask again|Run again|Pin|Delete|Edit|Make a link|Erase)")
    main = page.get_by_role("main")
    for place, text in shown.items():
        page.goto(f"/sessions/{run.session_id}{place}")
        expect(main.get_by_text(text, exact=True).first).to_be_visible()
        for role in ("button", "link"):
            expect(main.get_by_role(role, name=refused)).to_have_count(0)
    page.unroute("**/v1/account")


def test_somebody_without_an_account_reads_a_run_by_its_link_until_it_is_revoked(run: Run) -> None:
    page = run.page
    page.goto(f"/sessions/{run.session_id}/settings")
    panel = page.get_by_role("region", name="Public links")
    panel.get_by_role("button", name="Make a link").click()
    address = panel.locator("pre").inner_text()
    stranger = page.context.browser.new_context().new_page()
    asked: list[str] = []
    stranger.on("request", lambda request: asked.append(request.url))
    errors: list[str] = []
    stranger.on("pageerror", lambda error: errors.append(str(error)))
    stranger.goto(
        address.replace(
            address.split("/shared")[0], str(run.api.base_url.copy_with(path="")).rstrip("/")
        )
    )
    expect(stranger.get_by_text("Read-only link, until")).to_be_visible()
    expect(
        stranger.get_by_role("img", name=re.compile("^Reward by step; at step 1: "))
    ).to_be_visible()
    rows = stranger.get_by_role("table", name="Episodes").get_by_role("row")
    expect(rows).to_have_count(11)
    photograph(stranger, "shared")
    rows.get_by_role("link", name="held out").click()
    stranger.get_by_role("button", name="Tokens", exact=True).click()
    expect(stranger.locator("[data-token]").first).to_be_visible()
    stranger.get_by_role("button", name="Read", exact=True).click()
    expect(stranger.get_by_role("region", name="Conversation")).to_be_visible()
    stranger.get_by_role("button", name="Tokens", exact=True).click()
    stranger.locator("[data-token]").first.click()
    expect(stranger.get_by_role("complementary", name="Token")).to_be_visible()
    photograph(stranger, "shared-episode")
    stranger.reload()
    expect(stranger.locator("[data-chosen]")).to_have_count(1)
    token = address.partition("#")[2]
    assert not [url for url in asked if token in url.partition("#")[0]], (
        "no server is sent the token in an address"
    )
    assert {url.split("/v1/")[1].split("/")[0].split("?")[0] for url in asked if "/v1/" in url} == {
        "shared"
    }
    panel.get_by_role("button", name="Revoke").click()
    page.get_by_role("button", name="Revoke link").click()
    expect(panel.get_by_role("button", name="Revoke")).to_have_count(0)
    expect(panel.locator("pre")).to_have_count(0)  # an address that leads nowhere
    stranger.goto("about:blank")
    stranger.goto(
        address.replace(
            address.split("/shared")[0], str(run.api.base_url.copy_with(path="")).rstrip("/")
        )
    )
    expect(stranger.get_by_text("This link is not valid")).to_be_visible()
    assert errors == []
    stranger.context.close()
