"""A live channel that stays open and brings nothing: the page finds out by its own clock, and loses
no entry.
"""

from urllib.parse import parse_qs, urlsplit

import pytest
from e2e.console_pages import Server, browser, charted_steps, create_session, page, server, sign_up
from playwright.sync_api import Browser, Page, expect

from support.chromium import WITHIN_MS
from support.muted_proxy import muted_proxy

__all__ = ["browser", "page", "server"]

pytestmark = pytest.mark.browser

SILENCE_MS = 40_000  # of live/follow.ts; the server says something every 15 s


def test_a_channel_that_falls_silent_is_told_given_up_and_gone_on_from_its_cursor(
    page: Page, browser: Browser, server: Server
) -> None:
    sign_up(page, "cyrus@example.org")
    session_id = create_session(page, "silent line")
    runtime = server.data / "runtimes" / session_id
    expect(page.get_by_text("collecting episodes for step 1").first).to_be_visible()
    target = urlsplit(server.url)
    with muted_proxy((target.hostname, target.port)) as proxy:
        context = browser.new_context(
            base_url=proxy.url, storage_state=page.context.storage_state()
        )
        watching, asked = context.new_page(), list[str]()
        watching.set_default_timeout(WITHIN_MS)
        watching.on("websocket", lambda socket: asked.append(socket.url))
        watching.clock.install()
        watching.goto(f"/sessions/{session_id}")
        (runtime / "step-1").touch()
        expect(charted_steps(watching)).to_have_attribute("data-steps", "1")
        expect(watching.get_by_text("Live", exact=True)).to_be_visible()
        newest = {"kind": "metric", "newest": "true", "limit": "1"}
        events = f"/v1/sessions/{session_id}/events"
        known = page.request.get(events, params=newest).json()["next_cursor"]

        proxy.mute()
        (runtime / "step-2").touch()
        expect(charted_steps(page)).to_have_attribute("data-steps", "2")  # who is connected sees it
        watching.clock.fast_forward(SILENCE_MS - 10_000)
        expect(watching.get_by_text("Live", exact=True)).to_be_visible()
        assert charted_steps(watching).get_attribute("data-steps") == "1"
        watching.clock.fast_forward(SILENCE_MS)
        expect(watching.get_by_text("Reconnecting…, stale since")).to_be_visible()

        proxy.unmute()
        watching.clock.fast_forward(SILENCE_MS)  # past the pause before it tries again
        expect(charted_steps(watching)).to_have_attribute("data-steps", "2")
        expect(watching.get_by_text("Live", exact=True)).to_be_visible()
        assert int(parse_qs(urlsplit(asked[-1]).query)["after"][0]) >= known, asked
        (runtime / "step-3").touch()
        expect(charted_steps(watching)).to_have_attribute("data-steps", "3")  # and it is live again
        expect(charted_steps(page)).to_have_attribute("data-steps", "3")
        rows = [
            each.get_by_role("tabpanel", name="Events").get_by_role("listitem")
            for each in (page, watching)
        ]
        for each in rows:
            expect(each.first).to_contain_text("collecting episodes for step 4")
        assert rows[1].all_inner_texts() == rows[0].all_inner_texts(), (
            "an entry is there twice, or was lost"
        )
        context.close()
