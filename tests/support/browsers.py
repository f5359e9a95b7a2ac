"""The browser that shows the tests their pages: Chromium, or Firefox with ``pytest --firefox``."""

import os
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright

from support import firefox_bidi
from support.chromium import SWITCHES, chromium_need
from support.quick import FIREFOX

REFUSED = "Firefox can’t establish a connection"


def browser_need() -> None:
    """Skip where no page can be shown."""
    if FIREFOX not in os.environ:
        chromium_need()


def browser_start(playwright: Playwright) -> Browser:
    """Fails where Firefox was asked for and is not there: neither Playwright's nor the system's."""
    if FIREFOX not in os.environ:
        return playwright.chromium.launch(executable_path=str(chromium_need()), args=SWITCHES)
    if Path(playwright.firefox.executable_path).exists():
        return playwright.firefox.launch()
    if firefox_bidi.firefox_path() is None:
        pytest.fail(
            "Firefox is missing: apt-get install firefox-esr, or playwright install firefox"
        )
    # by its first line it is run by the first python3, which is to be this one
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return playwright.firefox.launch(
        channel="moz-firefox",
        executable_path=firefox_bidi.__file__,
        env=os.environ | {"PATH": path},
    )


def errors_of(page: Page) -> list[str]:
    """The errors of the page's scripts from now on, as they come."""
    errors: list[str] = []
    # Firefox gives for one that a channel was refused, which a page may expect of its server.
    page.on(
        "pageerror",
        lambda error: None if REFUSED in error.message else errors.append(str(error)),
    )
    return errors
