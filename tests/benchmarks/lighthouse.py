"""Lighthouse's scores of the built console: sign-in, the list of runs, a run, an episode.

    .venv/bin/python tests/benchmarks/lighthouse.py                        the latest lighthouse, by npx
    .venv/bin/python tests/benchmarks/lighthouse.py --lighthouse COMMAND   one that is installed

Conditions: a whole server on this machine whose runtimes have fakes for engine and trainer, one
ended run of a step, its person signed in. Lighthouse's own settings (a telephone: 1.6 Mbit/s, a CPU
four times slower, both simulated), each page in a fresh browser. Performance is measured in time:
other work on the machine lowers it, and of --rounds the median counts. Accessibility is not.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from e2e.loop_server import LoopServer, until  # noqa: E402
from e2e.playing import play  # noqa: E402

from support.chromium import CHROMIUM, SWITCHES  # noqa: E402
from support.ports import free_port  # noqa: E402

CATEGORIES = ["performance", "accessibility", "best-practices"]
FIGURES = {
    "first paint": "first-contentful-paint",
    "largest": "largest-contentful-paint",
    "speed": "speed-index",
    "blocked": "total-blocking-time",
    "shift": "cumulative-layout-shift",
}
DEADLINE_S = 300


def signed_up(server: LoopServer) -> httpx.Client:
    """A browser's client of a new person; the server's key is theirs from now on."""
    client = httpx.Client(base_url=server.url, timeout=30)
    client.get("/_allauth/browser/v1/auth/session")
    client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
    person = {"email": "lena@example.org", "password": "correct-horse-7"}
    client.post("/_allauth/browser/v1/auth/signup", json=person).raise_for_status()
    client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
    made = (
        client.post("/v1/keys", json={"name": "loop", "scopes": ["admin"]})
        .raise_for_status()
        .json()
    )
    server.api_key = made["secret"]
    return client


def pages(server: LoopServer) -> tuple[dict[str, str], dict[str, str]]:
    """The addresses by name, and the cookies to read them with."""
    client = signed_up(server)
    remote = server.session()
    play(remote, "mist", 4)
    play(remote, "fog", 4)
    until(lambda: remote.status().policy_version == 1, "step 1 is done", 60)
    remote.close()
    session = f"/v1/sessions/{remote.id}"
    until(lambda: client.get(session).json()["state"] == "stopped", "the session has stopped", 60)
    episode = client.get(f"{session}/episodes", params={"sort": "best"}).json()["items"][0][
        "episode_id"
    ]
    run = f"/sessions/{remote.id}"
    return {
        "sign-in": "/signin",
        "runs": "/sessions",
        "run": run,
        "episode": f"{run}/episodes/{episode}",
    }, dict(client.cookies)


@contextmanager
def chromium(url: str, cookies: dict[str, str]) -> Iterator[int]:
    """A browser that is signed in, and the port at which Lighthouse finds it."""
    port = free_port()
    arguments = [*SWITCHES, f"--remote-debugging-port={port}"]
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=str(CHROMIUM), args=arguments
        )
        context.add_cookies(
            [{"name": name, "value": value, "url": url} for name, value in cookies.items()]
        )
        yield port
        context.close()


def scored(command: list[str], url: str, port: int) -> dict:
    """One report."""
    arguments = [
        *command,
        url,
        f"--port={port}",
        "--output=json",
        "--quiet",
        f"--only-categories={','.join(CATEGORIES)}",
    ]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=DEADLINE_S)
    if done.returncode:
        sys.exit(f"lighthouse failed at {url}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def failures(report: dict) -> list[str]:
    """What an automatic audit found wrong, besides its time."""
    wrong = []
    for category in CATEGORIES[1:]:
        for reference in report["categories"][category]["auditRefs"]:
            audit = report["audits"][reference["id"]]
            if reference["weight"] and audit["score"] is not None and audit["score"] < 1:
                wrong.append(f"{category}: {audit['id']}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lighthouse", default="npx --yes lighthouse")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = LoopServer(Path(folder))
        try:
            server.start()
            addresses, cookies = pages(server)
            print(f"{'page':10}" + "".join(f"{name:>16}" for name in [*CATEGORIES, *FIGURES]))
            for name, path in addresses.items():
                with chromium(server.url, {} if name == "sign-in" else cookies) as port:
                    reports = [
                        scored(asked.lighthouse.split(), server.url + path, port)
                        for _ in range(asked.rounds)
                    ]
                landed = {report["finalDisplayedUrl"] for report in reports}
                assert landed == {server.url + path}, landed
                scores = [
                    statistics.median(one["categories"][each]["score"] * 100 for one in reports)
                    for each in CATEGORIES
                ]
                shown = [reports[0]["audits"][audit]["displayValue"] for audit in FIGURES.values()]
                print(
                    f"{name:10}"
                    + "".join(f"{score:16.0f}" for score in scores)
                    + "".join(f"{one:>16}" for one in shown)
                )
                for wrong in sorted({wrong for report in reports for wrong in failures(report)}):
                    print(f"           {wrong}")
        finally:
            server.close()


if __name__ == "__main__":
    main()
