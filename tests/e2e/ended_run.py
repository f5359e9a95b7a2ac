"""A run that has ended, with what it has to show, and one signed-in browser: for all tests that read pages."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from e2e.console_pages import make_key, pages_need, sign_up
from e2e.loop_server import LoopServer, until
from e2e.playing import execute_agent, play
from playwright.sync_api import Page, sync_playwright

from support.chromium import SWITCHES, chromium_need

HOSTILE = "<script>document.title='owned'</script>\u202eevil"
SCREENSHOTS = os.environ.get("CONSOLE_SCREENSHOTS")  # a folder: what the pages looked like


@dataclass(frozen=True)
class Run:
    """A session that has ended: a trained step of two groups, an evaluation, and one that was given up."""

    page: Page
    session_id: str
    api: httpx.Client


@contextmanager
def played(loop_server: LoopServer) -> Iterator[Run]:
    """Skips where no page can be shown. An error in any page's script fails the tests at the end."""
    pages_need()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium_need()), args=SWITCHES)
        context = browser.new_context(base_url=loop_server.url, viewport={"width": 1440, "height": 900})
        context.set_default_timeout(30_000)
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if "Content Security Policy" in said.text else None)
        sign_up(page, "rita@example.org")
        with pytest.MonkeyPatch.context() as patch:  # the server is every module's
            patch.setattr(loop_server, "api_key", key := make_key(page))
            session_id = play_a_run(loop_server)
        session_url = f"{loop_server.url}/v1/sessions/{session_id}"
        with httpx.Client(
            base_url=session_url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=30,
        ) as api:
            until(lambda: api.get(session_url).json()["state"] == "stopped", "the session has stopped", 60)
            yield Run(page, session_id, api)
        browser.close()
        assert errors == []


def play_a_run(server: LoopServer) -> str:
    """The id of a session that has trained a step, and is ending."""
    remote = server.session()
    play(remote, "mist", 4)
    play(remote, HOSTILE, 4)
    until(lambda: remote.status().policy_version == 1, "step 1 is done", 60)
    evaluated = remote.begin_episode(task="held out", eval=True)
    remote.end_episode(execute_agent("held out", evaluated))
    remote.begin_episode(task="mist").abandon("why not")
    session_id = remote.id
    remote.close()
    return session_id


def photograph(page: Page, name: str) -> None:
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", full_page=True)
