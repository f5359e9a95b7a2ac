"""The plug-in of the quick tier fails a test that starts, waits or reaches further than it may."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from support.quick import CPU_LIMIT_S, QuickRules

Wrapped = Callable[[Callable[[], Any]], Any]
TEST_ADDRESS = "192.0.2.1"  # RFC 5737: nobody's


@pytest.fixture(scope="module")
def rules() -> Iterator[QuickRules]:
    """They stand in for what they count until they are taken back; the hook of audits stays, and
    counts nothing outside a test.
    """
    kept = time.sleep, asyncio.sleep
    yield QuickRules()
    time.sleep, asyncio.sleep = kept


@pytest.fixture
def held(rules: QuickRules) -> Wrapped:
    """``held(body)``: what a test of ``body`` ends with."""
    item: Any = SimpleNamespace(iter_markers=lambda: iter(()))

    def run(body: Callable[[], Any]) -> Any:
        call = rules.pytest_runtest_call(item)
        next(call)
        found = body()
        with pytest.raises(StopIteration) as ended:
            call.send(found)
        return ended.value.value

    return run


def in_a_task(body: Callable[[], Awaitable[Any]]) -> Callable[[], Any]:
    """``body`` as pytest-asyncio runs a test."""

    async def test_body() -> Any:
        return await body()

    return lambda: asyncio.run(test_body())


async def waited(timeout_s: float) -> None:
    """For a while, beside a task that would sleep for longer."""
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(timeout_s)
    task.cancel()


def fork_and_end() -> None:
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)


def connect(address: str) -> None:
    with socket.socket() as connected:
        connected.settimeout(0.01)
        connected.connect_ex((address, 9))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (lambda: subprocess.run([sys.executable, "-c", ""], timeout=60), "starts a process"),
        (lambda: os.system("true"), "starts a process"),
        (fork_and_end, "starts a process"),
        (lambda: os.posix_spawn("/bin/true", ["true"], {}), "starts a process"),
        (lambda: os.waitpid(os.spawnv(os.P_NOWAIT, "/bin/true", ["true"]), 0), "starts a process"),
        (lambda: time.sleep(0.6), "sleeps for 0.6 s"),
        (in_a_task(lambda: waited(0.6)), "sleeps for 0.6 s"),
        (lambda: connect(TEST_ADDRESS), f"connects to {TEST_ADDRESS}"),
    ],
    ids=["run", "system", "fork", "spawn", "spawnv", "sleep", "asyncio", "socket"],
)
def test_a_quick_test_that_breaks_a_rule_fails(
    held: Wrapped, body: Callable[[], Any], why: str
) -> None:
    with pytest.raises(pytest.fail.Exception, match=why):
        held(body)


def test_a_quick_test_that_computes_for_long_fails(
    held: Wrapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, CPU_LIMIT_S + 1])
    monkeypatch.setattr(time, "process_time", lambda: next(clock))
    with pytest.raises(pytest.fail.Exception, match=f"computes for {CPU_LIMIT_S + 1:.1f} s"):
        held(lambda: None)


def test_a_quick_test_may_use_its_own_loopback_threads_and_tasks(held: Wrapped) -> None:
    def notified() -> bool:
        event = threading.Event()
        threading.Timer(0.01, event.set).start()
        return event.wait(60)

    assert held(notified)
    assert held(lambda: connect("127.0.0.1")) is None
    assert held(in_a_task(lambda: waited(0.01))) is None
