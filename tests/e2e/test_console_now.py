"""What the page of a live run says of this moment."""

import re

import pytest
from e2e.ended_run import Run, photograph
from e2e.loop_server import LoopServer
from e2e.playing import play
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_a_live_run_shows_what_it_does_what_fills_and_what_ended_and_an_ended_one_does_not(
    run: Run, loop_server: LoopServer
) -> None:
    page = run.page
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            loop_server, "api_key", run.api.headers["Authorization"].removeprefix("Bearer ")
        )
        remote = loop_server.session()
    play(remote, "fog", 3)
    remote.begin_episode(task="mist")
    page.goto(f"/sessions/{remote.id}")
    now = page.get_by_role("region", name="Now")
    filling = now.get_by_role("region", name="Groups that are filling")
    expect(filling.get_by_role("listitem")).to_have_text(
        ["fog3 of 4 ended", "mist0 of 4 ended, 1 open"]
    )
    expect(filling).to_contain_text("0 of 2 full for the next step")
    expect(now).to_contain_text(re.compile(r"for \d+ s"))
    last = now.get_by_role("region", name="Last episodes").get_by_role("link")
    expect(last).to_have_count(3)
    photograph(page, "run-now")
    play(remote, "fog", 1)  # in place of the open one
    expect(filling.get_by_role("listitem")).to_have_text(["fog4 of 4 ended"])  # by itself
    expect(filling).to_contain_text("1 of 2 full for the next step")
    expect(last).to_have_count(4)
    last.first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("fog")
    page.go_back()
    remote.close()
    expect(now).to_have_count(0)
