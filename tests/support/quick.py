"""The tiers of the suite, by what a test starts.

quick    nothing: it runs in this process, reaches no further than its own loopback, waits for no clock, and
         computes for less than a second. ``pytest --quick`` chooses these and fails one that breaks a rule.
smoke    a whole server, store, engine, trainer or browser: one case of each kind, which `make test` runs too
system   whatever else starts a process, a store, a server or a browser, waits, or computes for longer
"""

import asyncio
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

# Of one quick test, its fixtures apart. One second on a quiet core is the aim; a slow and shared one
# takes three times as long, so the limit finds only a test that is of another tier on any machine.
CPU_LIMIT_S = 10.0
# at once, of one quick test; botocore pauses for up to 0.4 s before it asks a store again
SLEEP_LIMIT_S = 0.5
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
PROCESS_EVENTS = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "subprocess.Popen",
    }
)
TESTS = Path(__file__).resolve().parents[1]


class QuickRules:
    """Fails a quick test that starts a process, sleeps, connects beyond this machine's loopback, or
    computes for too long.

    Waiting for an event is not judged: how long that takes depends on the machine's other work.
    """

    def __init__(self) -> None:
        self._broken: set[str] = set()
        self._slept_s = 0.0
        self._runs = False
        # starts `uname` once a process: for whichever client is the first to send its headers
        platform.platform()
        sys.addaudithook(self._on_event)
        # before Python 3.13 no audit tells of it
        time.sleep = self._counted_here(time.sleep)
        asyncio.sleep = self._counted_in_task(asyncio.sleep)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._runs:
            return
        if event in PROCESS_EVENTS:
            # The kernels for processors are compiled by the test of a process that needs them
            # first.
            program = str(arguments[0]) if arguments else ""  # of a fork there is none
            if program != os.environ.get("CC", "cc"):
                self._broken.add("starts a process")
        elif event == "socket.connect" and not is_here(*arguments):
            self._broken.add(f"connects to {arguments[1][0]}")

    def _slept(self, seconds: float) -> None:
        """A shorter sleep looks again and again for what may be there at any moment."""
        if seconds > SLEEP_LIMIT_S:
            self._slept_s += seconds

    def _counted_here(self, sleep: Callable[[float], None]) -> Callable[[float], None]:
        """``time.sleep`` in the test's own thread."""

        def counted(seconds: float) -> None:
            sleep(seconds)
            if threading.current_thread() is threading.main_thread():
                self._slept(seconds)

        return counted

    def _counted_in_task(self, sleep: Callable[..., Any]) -> Callable[..., Any]:
        """``asyncio.sleep`` in the test's own task, where it is not cancelled before its end."""

        async def counted(delay: float, result: Any = None) -> Any:
            found = await sleep(delay, result)
            task = asyncio.current_task()
            if task is not None and getattr(task.get_coro(), "__name__", "").startswith("test_"):
                self._slept(delay)
            return found

        return counted

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
        if self._slept_s:
            self._broken.add(f"sleeps for {self._slept_s:.1f} s")
        if self._broken:
            found = " and ".join(sorted(self._broken))
            pytest.fail(
                f"This quick test {found}. Mark it `system`, or test a smaller part.", pytrace=False
            )
        return result


def is_here(connected: socket.socket, address: Any) -> bool:
    """Whether a connection stays on this machine; a socket for datagrams sends nothing by it."""
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    if connected.type != socket.SOCK_STREAM or address[0] == "localhost":
        return True
    try:
        return ip_address(address[0].partition("%")[0]).is_loopback
    except ValueError:  # a name
        return False


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
