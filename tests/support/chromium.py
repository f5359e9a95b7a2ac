"""The browser of the tests."""

from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
SWITCHES = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def chromium_need() -> Path:
    """Where Chromium is; skips where it is not."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing: apt-get install chromium")
    return CHROMIUM
