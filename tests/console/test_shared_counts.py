"""What several processes count together: each of many additions once, and nothing of a process that is gone."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.core.cache.backends.base import BaseCache

from console.config.counting import caches
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.protocol import Resources
from console.server import shared_counts
from console.server.shared_counts import FileCache, SharedTally, counts_file, worker_begin
from console.server.web_processes import web_names

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from pathlib import Path
from django.conf import settings
settings.configure()
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.protocol import Resources
from console.server import shared_counts
shared_counts._owner = sys.argv[2]
path = Path(sys.argv[1])
cache, held = shared_counts.FileCache(path, {}), shared_counts.SharedTally(path, "calls")
print("begun", flush=True)
sys.stdin.readline()
cache.add("requests", 0)
for _ in range(200):
    cache.incr("requests", 2)
    held.add("key", 3)
    held.add("key", -2)
print(cache.add("only-one", True), flush=True)
"""


@pytest.fixture
def path(tmp_path: Path):
    path = tmp_path / "counts.sqlite3"
    yield path
    counts_file.cache_clear()


def test_no_addition_is_lost_between_processes_and_one_alone_is_first(path: Path, settings) -> None:
    command = [sys.executable, "-c", PROGRAM, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    others = [subprocess.Popen([*command, name], **pipes) for name in ("web", "web-2", "web-3")]
    assert [other.stdout.readline() for other in others] == ["begun\n"] * 3
    said = [other.communicate("\n", timeout=60)[0] for other in others]
    assert sorted(said) == ["False\n", "False\n", "True\n"]
    cache, held = FileCache(path, {}), SharedTally(path, "calls")
    assert cache.get("requests") == 3 * 200 * 2
    assert held.add("key", 0) == (600, 600) and SharedTally(path, "bytes").add("key", 0) == (0, 0)
    assert held.add("another", 1) == (1, 601)
    settings.SHARED_COUNTS = path
    worker_begin("web-2")
    assert held.add("key", 0) == (400, 401), "what it had under way ended with it"


@pytest.mark.parametrize("kind", ["the file", "one process"])
def test_the_file_keeps_what_djangos_own_cache_does(path: Path, kind, settings, monkeypatch) -> None:
    settings.CACHES = caches("", path if kind == "the file" else None)
    from django.core.cache import caches as django_caches

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


def test_what_is_over_goes_and_the_file_has_a_bound(path: Path, monkeypatch) -> None:
    monkeypatch.setattr(shared_counts, "PURGE_EVERY", 10)
    monkeypatch.setattr(shared_counts, "MAX_ENTRIES", 4)
    cache = FileCache(path, {})
    for number in range(9):
        cache.set(f"over-{number}", 1, -1)
    cache.set("last", 1, 60)
    assert counts_file(path).read("SELECT count(*) FROM kept", []) == [(1,)]
    for number in range(20):
        cache.set(f"n-{number}", number, 60 + number)
    assert counts_file(path).read("SELECT count(*) FROM kept", [])[0][0] <= 4 + 10
    assert cache.get("n-19") == 19 and cache.get("n-0") is None, "what is over soonest goes first"


@pytest.mark.parametrize(
    ("cores", "launcher", "count"),
    [(1, "process", 1), (3, "process", 1), (4, "docker", 2), (64, "process", 4), (64, "slurm", 1)],
)
def test_a_web_process_for_every_two_cores_of_one_machine(cores, launcher, count, settings, monkeypatch) -> None:
    settings.LAUNCHER = LauncherOptions(name=launcher, resources=Resources())
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    assert web_names() == ["web", "web-2", "web-3", "web-4"][:count]
