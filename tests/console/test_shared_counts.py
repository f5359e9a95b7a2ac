"""What several processes count together: each of many additions once, and nothing of a process that is gone."""

import asyncio
import logging
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from allauth.core import ratelimit
from asgiref.sync import sync_to_async
from django.core.cache import caches as django_caches
from django.core.cache.backends.base import BaseCache
from django.test import RequestFactory

from console.config.counting import caches
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.protocol import Resources
from console.server import shared_counts
from console.server.shared_counts import FileCache, counts_file
from console.server.shared_tallies import Exchange, Others, exchange_get, tally
from console.server.web_processes import web_names
from tinkerscript.processes import machine_share

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from pathlib import Path
from django.conf import settings
settings.configure()
from console.server.shared_counts import FileCache
from console.server.shared_tallies import Exchange
path = Path(sys.argv[1])
cache, exchange = FileCache(path, {}), Exchange(path)
held = exchange.tally("calls")
print("begun", flush=True)
sys.stdin.readline()
cache.add("requests", 0)
for _ in range(200):
    cache.incr("requests", 2)
    held.count("key", 3)
    held.count("key", -2)
    exchange.exchange()
print(cache.add("only-one", True), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path):
    path = tmp_path / "counts.sqlite3"
    yield path
    counts_file.cache_clear()
    exchange_get.cache_clear()


@pytest.fixture
def shared(path: Path, settings) -> Path:
    """The file as Django's cache, as workers of ``manage.py up`` have it."""
    settings.CACHES, settings.SHARED_COUNTS = caches("", path), path
    return path


def kept(path: Path) -> int:
    return counts_file(path).read("SELECT count(*) FROM kept", [])[0][0]


def test_no_addition_is_lost_between_processes_and_nothing_is_kept_of_one_that_is_gone(shared: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(shared)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    others = [subprocess.Popen(command, **pipes) for _ in range(3)]
    try:
        assert [other.stdout.readline() for other in others] == ["begun\n"] * 3
        for other in others:
            other.stdin.write("\n")
            other.stdin.flush()
        assert sorted(other.stdout.readline() for other in others) == ["False\n", "False\n", "True\n"]
        assert FileCache(shared, {}).get("requests") == 3 * 200 * 2
        calls, sizes = tally("calls"), tally("bytes")
        exchange_get(shared).exchange()
        assert calls.count("another", 1) == (1, 601) and calls.count("key", 0) == (600, 601)
        assert sizes.count("key", 0) == (0, 0)
        others[0].kill()
        others[0].wait()
        exchange_get(shared).exchange()
        assert calls.count("key", 0) == (400, 401), "what it had under way ended with it"
        assert len(counts_file(shared).read("SELECT pid FROM under_way", [])) == 3
    finally:
        for other in others:
            other.kill()
            other.communicate()


def test_processes_that_open_a_new_file_at_once_wait_for_one_another(path: Path) -> None:
    """Counting alone for RETRY_S, which each did that came second, let every process pass a limit once."""
    first = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    first.execute("BEGIN IMMEDIATE")
    first.execute("CREATE TABLE something (number)")  # as when it makes its tables
    second = FileCache(path, {})
    with ThreadPoolExecutor(1) as threads:
        added = threads.submit(second.add, "only-one", True)
        with pytest.raises(TimeoutError):
            added.result(0.3)
        first.execute("COMMIT")
        assert added.result(25)
    first.close()
    assert counts_file(path).may_be_used(to_write=False) and kept(path) == 1


def test_a_pid_that_another_process_has_now_counts_for_nothing(path: Path) -> None:
    mine = Exchange(path)
    calls = mine.tally("calls")
    mine.exchange()
    stale = (1, -1, '{"calls": {"key": 7}}')
    counts_file(path).write(("INSERT INTO under_way VALUES (?, ?, ?)", stale))
    mine.exchange()
    assert calls.count("key", 0) == (0, 0)


@pytest.mark.parametrize("kind", ["the file", "one process"])
def test_the_file_keeps_what_djangos_own_cache_does(path: Path, kind, settings, monkeypatch) -> None:
    settings.CACHES = caches("", path if kind == "the file" else None)
    cache: BaseCache = django_caches["default"]
    assert isinstance(cache, FileCache) == (kind == "the file")
    cache.clear()
    history = [1.5, {"a": None}]
    assert cache.add("a", history, 60) and not cache.add("a", 1, 60) and cache.get("a") == history
    cache.set("n", 5, None)
    assert cache.incr("n") == 6 and cache.incr("n", -2) == 4 and cache.get("n") == 4
    assert cache.get_or_set("m", lambda: 7, 60) == 7 and cache.get_many(["n", "m", "none"]) == {"n": 4, "m": 7}
    assert cache.touch("m", 60) and not cache.touch("none")
    assert cache.delete("m") and not cache.delete("m") and cache.get("m", "other") == "other"
    cache.set("over", 1, -1)
    with pytest.raises(ValueError):
        cache.incr("over")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert cache.get("a") is None and cache.add("a", 2, 60) and cache.get("a") == 2 and "n" in cache
    cache.clear()
    assert cache.get("n") is None


async def test_what_is_over_goes_and_the_file_has_a_bound(shared: Path, monkeypatch) -> None:
    monkeypatch.setattr(shared_counts, "PURGE_EVERY", 10)
    monkeypatch.setattr(shared_counts, "MAX_ENTRIES", 4)

    async def request(key: str, timeout_s: int) -> None:
        """As a request does it: with a cache object of its own."""
        await sync_to_async(lambda: django_caches["default"].set(key, 1, timeout_s))()

    for number in range(9):
        await asyncio.create_task(request(f"over-{number}", -1))
    await asyncio.create_task(request("last", 60))
    assert kept(shared) == 1
    for number in range(20):
        await asyncio.create_task(request(f"n-{number}", 60 + number))
    assert kept(shared) <= 4 + 10
    cache = FileCache(shared, {})
    assert cache.get("n-19") == 1 and cache.get("n-0") is None, "what is over soonest goes first"


def test_with_a_full_disk_each_process_counts_for_itself(shared: Path, monkeypatch, caplog) -> None:
    cache, calls = FileCache(shared, {}), tally("calls")
    cache.set("before", 1)
    exchange_get(shared).exchange()
    counts_file(shared).write(("PRAGMA max_page_count = 1", []))
    calls.others = Others(Counter(key=5), 5)
    with caplog.at_level(logging.ERROR):
        cache.set("large", "x" * 100_000)
        assert cache.get("large") == "x" * 100_000
        assert cache.add("n", 0) and cache.incr("n") == 1 and cache.incr("before") == 1
        calls.count("key", 2)
        exchange_get(shared).exchange()
    assert calls.count("key", -1) == (1, 1)
    assert len(caplog.records) == 1 and "full" in caplog.text
    counts_file(shared).read("PRAGMA max_page_count = 1000000", [])
    monkeypatch.setattr(shared_counts, "RETRY_S", 0.0)
    assert cache.get("n") == 1, "a full disk can be read: only a write shows that it works again"
    cache.set("m", 5)
    assert FileCache(shared, {}).get("m") == 5 and cache.get("n") is None and kept(shared) == 2


def test_parallel_failed_sign_ins_are_all_counted(shared: Path, settings) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"login_failed": "5/300s/key"}
    request = RequestFactory().post("/")

    def consume(_: int) -> bool:
        return ratelimit.consume(request, action="login_failed", key="a@example.com")

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(consume, range(16))) <= 5
    assert not consume(0)


@pytest.mark.parametrize(
    ("cores", "launcher", "count"),
    [(1, "process", 1), (3, "process", 1), (4, "docker", 2), (64, "process", 4), (64, "slurm", 1)],
)
def test_a_web_process_for_every_two_cores_of_one_machine(
    cores, launcher, count, settings, tmp_path, monkeypatch
) -> None:
    settings.LAUNCHER = LauncherOptions(name=launcher, resources=Resources())
    nowhere = {"root": tmp_path, "own": tmp_path / "none"}
    monkeypatch.setattr(machine_share, "cpus", partial(machine_share.cpus, allowed=cores, **nowhere))
    monkeypatch.setenv("TINKERSCRIPT_RUNTIME_CPUS", "1")
    assert web_names() == ["web", "web-2", "web-3", "web-4"][:count]
    settings.WEB_PROCESSES = 6
    assert len(web_names()) == (1 if launcher == "slurm" else 6)


def test_a_containers_quota_bounds_the_web_processes(settings, tmp_path, monkeypatch) -> None:
    settings.LAUNCHER = LauncherOptions(name="process", resources=Resources())
    (tmp_path / "cpu.max").write_text("400000 100000\n")
    (tmp_path / "own").write_text("0::/\n")
    quota = {"root": tmp_path, "own": tmp_path / "own"}
    monkeypatch.setattr(machine_share, "cpus", partial(machine_share.cpus, allowed=64, **quota))
    assert web_names() == ["web", "web-2"]
