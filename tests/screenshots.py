"""Draw the pictures of README and manual anew: pages of the demo run (``api/demo_run``).

``python tests/screenshots.py``, after ``make frontend``: no server, no engine. Chromium is the one
that the browser tests use.
"""

import base64
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from api.demo import FOLDER  # noqa: E402
from support.browsers import browser_start  # noqa: E402
from tinkerscript.viewer.run_folder import RunFolder  # noqa: E402
from tinkerscript.viewer.server import Viewer  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
WIDTH = 1200  # pixels
QUALITY = 70  # of WebP


def main() -> None:
    folder = RunFolder(FOLDER)
    run = f"/sessions/{folder.run.session.id}"
    trained = [each for each in folder.episodes if each["fate"] == "trained"]
    last = max(trained, key=lambda each: each["trained_step"])
    pages = {  # how much of each is shown, in pixels, and what has to be there
        "run": (run, 630, "role=img[name=/^Reward by/] >> canvas"),
        "step": (f"{run}/steps/{last['trained_step']}", 860, "role=region[name=/^Answer/]"),
        "episode": (
            f"{run}/episodes/{last['episode_id']}",
            660,
            'role=region[name="Conversation"]',
        ),
    }
    PICTURES.mkdir(exist_ok=True)
    with viewing(folder) as page:
        for name, (path, height, needed) in pages.items():
            page.set_viewport_size({"width": WIDTH, "height": height})
            page.goto(path)
            page.locator(needed).first.wait_for()
            page.wait_for_load_state("networkidle")
            picture_write(page, PICTURES / f"{name}.webp")


@contextmanager
def viewing(folder: RunFolder) -> Iterator[Page]:
    """A page that has opened the run."""
    with Viewer(folder) as viewer, sync_playwright() as playwright:
        thread = threading.Thread(target=viewer.serve_forever, args=(0.05,))
        thread.start()
        browser = browser_start(playwright)
        page = browser.new_page(base_url=f"http://{viewer.host}")
        page.goto(viewer.address)
        yield page
        browser.close()
        viewer.shutdown()
        thread.join()


def picture_write(page: Page, path: Path) -> None:
    """What the window shows, as WebP, which Playwright itself does not write."""
    chromium = page.context.new_cdp_session(page)
    told = chromium.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    path.write_bytes(base64.b64decode(told["data"]))
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
