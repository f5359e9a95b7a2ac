"""The embedded store, killed and started again: it has what it had, and rests while nothing asks."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.test import override_settings

from console.object_store import client, seaweedfs
from console.scheduling.processes import wait_until

pytestmark = pytest.mark.system

SETTLE_S, COUNTED_S = 30.0, 5.0
# At rest some 120 a second; with a timer of a millisecond that never ends, 1,900.
WAKES_PER_S = 500


@contextmanager
def store(data: Path) -> Iterator[int]:
    """Its process, which ends by SIGKILL."""
    with (data.parent / "weed.log").open("ab") as log:
        process = seaweedfs.start(data, log=log.fileno())
    try:
        client.ready_wait(timeout_s=60, stopped=lambda: process.poll() is not None)
        yield process.pid
    finally:
        process.kill()
        process.wait(25)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    with override_settings(DATA=tmp_path / "data", S3_ENDPOINT_URL=""):
        (tmp_path / "data").mkdir(mode=0o700)
        yield tmp_path / "data"


def wakes(pid: int) -> int:
    """How often its threads have waited for something until now."""
    lines = (
        line
        for status in Path(f"/proc/{pid}/task").glob("*/status")
        for line in status.read_text().splitlines()
    )
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))


def is_at_rest(pid: int) -> bool:
    before = wakes(pid)
    time.sleep(COUNTED_S)
    return wakes(pid) - before < WAKES_PER_S * COUNTED_S


def test_a_store_that_was_killed_has_every_object_and_rests_as_a_new_one(data: Path) -> None:
    written = {}
    for number in range(3):
        with store(data):
            assert {key: client.get(key) for key in written} == written
            written[f"sessions/ses_{number}/model"] = bytes([number]) * 100_000
            client.put(*[*written.items()][-1])
    with store(data) as pid:
        assert {key: client.get(key) for key in written} == written
        assert wait_until(lambda: is_at_rest(pid), timeout_s=SETTLE_S)
