"""The browser that shows the tests their pages: Chromium, or Firefox with ``pytest --firefox``."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright

from support.chromium import SWITCHES, chromium_need
from support.quick import FIREFOX


def browser_need() -> None:
    """Skip where no page can be shown."""
    if FIREFOX not in os.environ:
        chromium_need()


def browser_start(playwright: Playwright) -> Browser:
    """Fails where Firefox was asked for and is not there."""
    if FIREFOX not in os.environ:
        return playwright.chromium.launch(executable_path=str(chromium_need()), args=SWITCHES)
    if not Path(playwright.firefox.executable_path).exists():
        pytest.fail("Firefox is missing: .venv/bin/python -m playwright install firefox")
    return playwright.firefox.launch()
