"""The browser of the tests."""

from pathlib import Path

import playwright.async_api
import playwright.sync_api
import pytest

# What is expected of a page, and what is done in it: a click alone took more than 30 s beside other
# work on two cores.
WITHIN_MS = 90_000
playwright.async_api.expect.set_options(timeout=WITHIN_MS)
playwright.sync_api.expect.set_options(timeout=WITHIN_MS)

# The first has no window to draw around a page, which costs the other a third of all that a page
# takes.
PROGRAMS = (Path("/usr/lib/chromium/chromium-headless-shell"), Path("/usr/bin/chromium"))
CHROMIUM = next((path for path in PROGRAMS if path.exists()), PROGRAMS[0])
# Each window loads two pages of the address bar's own list of proposals, which takes twice as long
# as one of ours. Of several such lists Chromium takes the last alone: the others are those that
# Playwright names.
WITHOUT = [
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup",
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled",
    "PreconnectToSearch",
]  # fmt: skip
SWITCHES = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", f"--disable-features={','.join(WITHOUT)}",
]  # fmt: skip


def chromium_need() -> Path:
    """Where Chromium is; skips where it is not."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing: apt-get install {CHROMIUM.name}")
    return CHROMIUM
