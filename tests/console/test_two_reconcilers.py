"""Two processes of ``manage.py reconcile`` and one database, three places: no session starts twice,
and none waits.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support import migrated_database, reconciler_process
from support.waiting import wait_until

pytestmark = pytest.mark.system

DATABASE = "two_reconcilers"  # of the server of tests/on_postgres.py
ROUND = 10  # sessions of each place
START_S = 250.0  # of processes of Django on a machine that does much else


@pytest.fixture
def database(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where the test's own database is: an empty one of PostgreSQL, or SQLite's file in DATA."""
    served = os.environ.get("TEST_DATABASE_URL", "")
    if not served:
        migrated_database.for_server(tmp_path / "data")
        yield {}
        return
    import psycopg

    with closing(psycopg.connect(served, autocommit=True)) as books:
        books.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        books.execute(f"CREATE DATABASE {DATABASE}")
        yield {"DATABASE_URL": f"{served.rpartition('/')[0]}/{DATABASE}"}
        books.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


@pytest.fixture
def start(
    tmp_path: Path, database: dict[str, str]
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts the program of ``support/reconciler_process.py``; what is left of it is killed."""
    private = ("TINKERSCRIPT_", "S3_", "DATABASE_URL", "REDIS_URL")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(private)
    }
    environment |= database | {
        "DJANGO_SETTINGS_MODULE": "console.settings", "TINKERSCRIPT_DATA": str(tmp_path / "data"),
        "TINKERSCRIPT_MAX_RUNTIMES": "1000",
    }  # fmt: skip
    started = []

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("ab") as log:
            command = [sys.executable, reconciler_process.__file__, str(tmp_path), *arguments]
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait(25)


@pytest.mark.timeout(900)
def test_one_leads_all_places_and_the_other_goes_on_when_it_is_killed(start, tmp_path) -> None:
    def launches() -> list[list[str]]:
        path = tmp_path / "launches"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def fill() -> None:
        assert start(str(ROUND)).wait(START_S) == 0, (tmp_path / "log").read_text()[-3000:]

    def by_process() -> Counter[int]:
        return Counter(int(pid) for _, _, pid in launches())

    def play() -> list[list[str]]:
        """Fill the queue once more; what is started then."""
        so_far = len(launches())
        fill()
        wait_until(lambda: len(launches()) == so_far + 3 * ROUND, timeout_s=START_S)
        return launches()[so_far:]

    fill()
    both = [start(), start()]
    wait_until(lambda: len(launches()) == 3 * ROUND, timeout_s=START_S)
    assert len({pid for _, _, pid in play()}) == 1, "one leads all places"
    lost, left = sorted(both, key=lambda process: -by_process()[process.pid])
    lost.kill()
    assert {int(pid) for _, _, pid in play()} == {left.pid}
    sessions = Counter(launch.partition("-")[0] for _, launch, _ in launches())
    assert set(sessions.values()) == {1}, "no session is started twice"
