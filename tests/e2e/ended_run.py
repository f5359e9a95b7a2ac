"""A run that has ended, with what it has to show, and one signed-in browser: for all tests that
read pages.
"""

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
from playwright.sync_api import Page, StorageState, sync_playwright

from support.browsers import browser_start, errors_of
from support.chromium import WITHIN_MS

HOSTILE = "<script>document.title='owned'</script>\u202eevil"
SCREENSHOTS = os.environ.get("CONSOLE_SCREENSHOTS")  # a folder: what the pages looked like


@dataclass(frozen=True)
class Played:
    """A session that has ended: a trained step of two groups, two evaluations, and an episode that
    was given up.
    """

    session_id: str
    key: str
    cookies: StorageState  # of the person whose session it is


@dataclass(frozen=True)
class Run:
    """The session in a browser that its person has signed in with, and behind its REST address."""

    page: Page
    session_id: str
    api: httpx.Client


def played(loop_server: LoopServer) -> Played:
    """Skips where no page can be shown."""
    pages_need()
    with _page(loop_server) as page:
        sign_up(page, "rita@example.org")
        key, cookies = make_key(page), page.context.storage_state()
    with pytest.MonkeyPatch.context() as patch:  # the server is every module's
        patch.setattr(loop_server, "api_key", key)
        # Without the browser: beside its event loop the client refuses to wait for a machine that
        # is busy.
        return Played(play_a_run(loop_server), key, cookies)


@contextmanager
def shown(loop_server: LoopServer, it: Played) -> Iterator[Run]:
    """For one module: the event loop of a browser that is open lets no other one start, and no test
    of asyncio run.
    """
    session_url, headers = (
        f"{loop_server.url}/v1/sessions/{it.session_id}",
        {"Authorization": f"Bearer {it.key}"},
    )
    with (
        httpx.Client(base_url=session_url, headers=headers, timeout=30) as api,
        _page(loop_server, it.cookies) as page,
    ):
        until(
            lambda: api.get(session_url).json()["state"] == "stopped", "the session has stopped", 60
        )
        yield Run(page, it.session_id, api)


@contextmanager
def _page(server: LoopServer, cookies: StorageState | None = None) -> Iterator[Page]:
    """A browser. An error in any page's script fails the tests at its end."""
    with sync_playwright() as playwright:
        browser = browser_start(playwright)
        viewport = {"width": 1440, "height": 900}
        context = browser.new_context(base_url=server.url, viewport=viewport, storage_state=cookies)
        context.set_default_timeout(WITHIN_MS)
        page = context.new_page()
        errors = errors_of(page)
        page.on(
            "console",
            lambda said: (
                errors.append(said.text) if "Content Security Policy" in said.text else None
            ),
        )
        yield page
        browser.close()
        assert errors == [], errors


def play_a_run(server: LoopServer) -> str:
    """The id of a session that has trained a step, and is ending."""
    remote = server.session(logprobs_after_step=True)
    play(remote, "mist", 4)
    play(remote, HOSTILE, 4)
    until(lambda: remote.status().policy_version == 1, "step 1 is done", 60)
    evaluated = remote.begin_episode(task="held out", eval=True)
    remote.end_episode(execute_agent("held out", evaluated))
    remote.begin_episode(task="mist").abandon("why not")
    session_id = remote.id
    for step, (mist, other) in enumerate([(0.25, 0.5), (0.75, 0.125)]):
        evaluation_record(server, session_id, step, {"mist": mist, HOSTILE: other})
    remote.close()
    return session_id


def evaluation_record(
    server: LoopServer, session_id: str, step: int, means: dict[str, float]
) -> None:
    """Of a set of held-out tasks, four episodes each, as ``evaluate`` of the SDK records what it
    played.
    """
    by_task = {
        task: {"reward_mean": mean, "reward_std": 0.25, "episodes": 4}
        for task, mean in means.items()
    }
    body = {
        "name": "held-out",
        "step": step,
        "reward_mean": sum(means.values()) / len(means),
        "reward_std": 0.25,
    }
    body |= {
        "episodes": 4 * len(means),
        "success_rate": 0.5,
        "by_task": by_task,
        "metrics": {"reward/format": 0.5},
    }
    url, headers = (
        f"{server.url}/v1/sessions/{session_id}/evaluations",
        {"Authorization": f"Bearer {server.api_key}"},
    )
    httpx.post(url, json=body, headers=headers, timeout=30).raise_for_status()


def photograph(page: Page, name: str) -> None:
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", full_page=True)
