"""The tiers of the suite, by what a test starts.

quick    nothing: it runs in this process, reaches no further than its own loopback, waits for no clock, and
         computes for less than a second. ``pytest --quick`` chooses these and fails one that breaks a rule.
smoke    a whole server, store, engine, trainer or browser: one case of each kind, which `make test` runs too
system   whatever else starts a process, a store, a server or a browser, waits, or computes for longer
"""

import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# of one quick test, its fixtures apart: one second on a quiet core; a slow and shared one takes
# more
CPU_LIMIT_S = 4.0
SLEEP_LIMIT_S = 0.25  # in all, of one quick test
FIREFOX = "TESTS_FIREFOX"  # a variable: what --firefox leaves for support/browsers.py
MARKS = ("system", "smoke", "engine", "browser", "gpu", "nightly")
# Whoever asks for one of these starts what it starts: a store, containers, jobs.
FIXTURES = frozenset(
    {"cluster_backend", "docker_backend", "embedded_s3", "slurm_backend", "swift_store"}
)
# Folders whose tests are part of `make check`; then those whose tests start whole servers or other
# packages' programs.
CHECKED_FOLDERS = ("architecture",)
FOLDERS = (*CHECKED_FOLDERS, "clients", "docker", "e2e", "gpu", "launching")
# seconds, and processes of their own
HEAVY = frozenset({"deepspeed", "torch", "transformers", "vllm"})
PROCESS_EVENTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})
TESTS = Path(__file__).resolve().parents[1]


class QuickRules:
    """Fails a quick test that starts a process, sleeps or computes for too long."""

    def __init__(self) -> None:
        self._broken: set[str] = set()
        self._slept_s = 0.0
        self._runs = False
        # starts `uname` once a process: for whichever client is the first to send its headers
        platform.platform()
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._runs:
            return
        if event in PROCESS_EVENTS:
            # The kernels for processors are compiled by the test of a process that needs them
            # first.
            if str(arguments[0]) != os.environ.get("CC", "cc"):
                self._broken.add("starts a process")
        elif event == "time.sleep":
            self._slept_s += arguments[0]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        if is_smoke(item):
            return (yield)
        self._broken, self._slept_s, self._runs = set(), 0.0, True
        loaded = len(sys.modules)
        began_s = time.process_time()
        try:
            result = yield
        finally:
            self._runs = False
        took_s = time.process_time() - began_s
        if any(name.partition(".")[0] in HEAVY for name in list(sys.modules)[loaded:]):
            return result  # whichever test of a worker is the first pays for the import
        if took_s > CPU_LIMIT_S:
            self._broken.add(f"computes for {took_s:.1f} s")
        if self._slept_s > SLEEP_LIMIT_S:
            self._broken.add(f"sleeps for {self._slept_s:.1f} s")
        if self._broken:
            found = " and ".join(sorted(self._broken))
            pytest.fail(
                f"This quick test {found}. Mark it `system`, or test a smaller part.", pytrace=False
            )
        return result


def is_quick(item: pytest.Item) -> bool:
    """Whether a test starts nothing, by its folder, its marks and the fixtures that it asks for."""
    if item.path.relative_to(TESTS).parts[0] in FOLDERS:
        return False
    if any(item.get_closest_marker(mark) for mark in MARKS):
        return False
    return not FIXTURES.intersection(getattr(item, "fixturenames", ()))


def is_smoke(item: pytest.Item) -> bool:
    """Whether a test is the case of its kind that `make test` runs with its real parts."""
    marks = {mark.name for mark in item.iter_markers()}
    return "smoke" in marks and not marks & {"nightly", "swift"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="choose the tests that start nothing, and hold them to it",
    )
    parser.addoption(
        "--smoke", action="store_true", help="choose one case of each kind with its real parts"
    )
    parser.addoption("--firefox", action="store_true", help="open pages in Firefox, not Chromium")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--firefox"):
        os.environ[FIREFOX] = "1"
    if config.getoption("--quick"):
        config.pluginmanager.register(QuickRules(), "quick-rules")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two a core: a test waits for half of its time, for its own loopback or for what it
    started.
    """
    return min(2 * (os.cpu_count() or 1), 8)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tiers, and begin with the files that start most: they wait while quick ones
    compute.
    """
    quick, smoke = config.getoption("--quick"), config.getoption("--smoke")
    if not quick and not smoke:
        return
    chosen = {item for item in items if (quick and is_quick(item)) or (smoke and is_smoke(item))}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    starting = {item.path for item in chosen if is_smoke(item)}
    whole = {path for path in starting if path.relative_to(TESTS).parts[0] in FOLDERS}
    kept = [item for item in items if item in chosen]
    items[:] = sorted(kept, key=lambda item: (item.path not in whole, item.path not in starting))
