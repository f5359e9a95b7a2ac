"""A runtime may write for ever: its log stays small, and its last lines are there across the change
of files.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from console.management.commands import up
from console.object_store import seaweedfs
from console.scheduling import logs, periodic_tasks
from console.scheduling.launchers.log_file import LOG, log_bound, log_tail
from console.scheduling.launchers.options import LAUNCHERS
from support import factories
from tinkerscript.wire.sessions import SessionState

LIMIT = 10_000
WRITER = """
import os, sys, time
for number in range(1, 20_001):
    sys.stdout.write(f"line {number} of a runtime\\n")
    sys.stdout.flush()
    while os.fstat(1).st_size > int(sys.argv[1]):  # as a runtime would not: the test may get no time for long
        time.sleep(0.0005)
print("last", flush=True)
"""


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / LOG


def write(path: Path, first: int, count: int) -> None:
    """As a runtime does: through a descriptor that appends."""
    with path.open("ab") as file:
        file.writelines(f"line {number}\n".encode() for number in range(first, first + count))


def numbers(lines: list[str]) -> list[int]:
    return [int(line.split()[1]) for line in lines]


def held(path: Path) -> bytes:
    return path.with_name(f"{LOG}.1").read_bytes() + path.read_bytes()


def test_a_log_within_its_limit_is_left_alone(path) -> None:
    assert log_bound(path) is False  # there is none yet
    write(path, 0, 10)
    before = path.read_bytes()
    assert log_bound(path, limit_bytes=len(before)) is False
    assert path.read_bytes() == before and os.listdir(path.parent) == [LOG]


def test_the_last_lines_are_the_same_before_and_after_and_go_on(path) -> None:
    write(path, 0, 2000)
    before = log_tail(path, lines=100)
    assert log_bound(path, limit_bytes=LIMIT)
    assert path.stat().st_size == 0
    assert log_tail(path, lines=100) == before
    write(path, 2000, 30)
    assert numbers(log_tail(path, lines=100)) == list(range(1930, 2030))
    assert numbers(log_tail(path, lines=7)) == list(range(2023, 2030))


def test_a_log_that_no_one_looked_at_for_long_leaves_its_end_from_a_whole_line_on(path) -> None:
    write(path, 0, 50_000)
    assert log_bound(path, limit_bytes=LIMIT)
    older = path.with_name(f"{LOG}.1").read_text().splitlines()
    assert numbers(older) == list(range(50_000 - len(older), 50_000)) and older[0].startswith(
        "line "
    )
    assert LIMIT - 20 < path.with_name(f"{LOG}.1").stat().st_size <= LIMIT


@pytest.mark.system
def test_a_runtime_that_writes_on_meanwhile_leaves_no_hole_no_torn_and_no_doubled_line(
    path,
) -> None:
    with path.open("ab") as log:
        writer = subprocess.Popen([sys.executable, "-c", WRITER, f"{5 * LIMIT}"], stdout=log)
    emptied, last = 0, 0
    try:
        deadline = time.monotonic() + 150  # of a slow machine
        while writer.poll() is None and time.monotonic() < deadline:
            emptied += log_bound(path, limit_bytes=LIMIT)
            tail = [
                int(found[1])
                for line in log_tail(path, lines=5)
                if (found := re.match(r"line (\d+) of", line))
            ]
            assert tail == sorted(set(tail))
            last = max([last, *tail])
    finally:
        writer.kill()
        writer.wait(25)
    assert emptied > 3 and last > 100
    text = held(path)
    assert b"\0" not in text and log_tail(path, lines=1) == ["last"]
    assert all(
        re.fullmatch(r"line \d+ of a runtime|last", line) for line in text.decode().splitlines()
    )
    seen = [int(number) for number in re.findall(rb"line (\d+)", text)]
    assert seen == sorted(set(seen))


def test_a_line_that_is_read_in_part_is_waited_for(path, monkeypatch) -> None:
    write(path, 0, 2000)
    with path.open("ab", buffering=0) as writer:
        writer.write(b"line 20")

        def written_on(seconds: float) -> None:
            monkeypatch.undo()
            writer.write(b"00\nline 2001\n")

        monkeypatch.setattr(time, "sleep", written_on)
        assert log_bound(path, limit_bytes=LIMIT)
        writer.write(b"line 2002\n")
    assert numbers(log_tail(path, lines=4)) == [1999, 2000, 2001, 2002]
    assert path.read_bytes() == b"line 2002\n"
    assert numbers(held(path).decode().splitlines())[-3:] == [2000, 2001, 2002]


def test_a_line_that_stays_unfinished_goes_on_in_the_new_file(path) -> None:
    write(path, 0, 2000)
    with path.open("ab", buffering=0) as writer:
        writer.write(b"line 20")
        assert log_bound(path, limit_bytes=LIMIT) and path.stat().st_size == 0
        writer.write(b"00\n")
    assert numbers(log_tail(path, lines=2)) == [1999, 2000]


def test_a_log_that_outgrows_its_limit_while_it_is_emptied_stays_small_and_loses_nothing(
    path, monkeypatch
) -> None:
    """By threefold between two looks and within each copy: a writer that no machine's speed makes
    slower.
    """
    copy, written, grown = shutil.copyfileobj, 0, 4000

    def write_on() -> None:
        nonlocal written
        write(path, written, grown)
        written += grown

    def copy_late(source: BinaryIO, target: BinaryIO, length: int) -> None:
        write_on()
        copy(source, target, length)

    monkeypatch.setattr(shutil, "copyfileobj", copy_late)
    for _ in range(5):
        write_on()
        assert path.stat().st_size > 3 * LIMIT
        assert log_bound(path, limit_bytes=LIMIT)
        assert path.stat().st_size == 0
        lines = numbers(held(path).decode().splitlines())
        assert lines == list(range(lines[0], written)), "what came meanwhile is held"
        assert lines[0] > written - 3 * grown, "of what was there before the end alone"


def test_a_line_that_is_written_in_pieces_is_one_line(path) -> None:
    with path.open("ab", buffering=0) as log:
        log.write(b"x" * LIMIT + b"\nfirst half, ")
        assert log_bound(path, limit_bytes=LIMIT)
        log.write(b"second half\rand a progress bar\n")
    assert log_tail(path, lines=5) == ["first half, second half\rand a progress bar"]


def test_two_that_do_it_at_once_do_it_once(path) -> None:
    write(path, 0, 2000)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert log_bound(path, limit_bytes=LIMIT) is False
    assert log_bound(path, limit_bytes=LIMIT)


def test_where_there_is_no_room_for_the_copy_the_log_stays_as_it_was(path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write(path, 0, 2000)
    before = path.read_bytes()
    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space"):
        log_bound(path, limit_bytes=LIMIT)
    assert path.read_bytes() == before and os.listdir(path.parent) == [LOG]


# -- Who does it ------------------------------------------------------------------------------------------------------


def test_the_reconcilers_tasks_do_it_for_the_runtimes_of_this_machine(
    project, tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.setitem(LAUNCHERS, "unit", LAUNCHERS["process"])  # another that runs here
    launchers = {"gone": "process", "ours": "process", "refused": "process"}
    launchers |= {"units": "unit", "slurms": "slurm"}
    folders = {name: tmp_path / name for name in launchers}
    for name, folder in folders.items():
        folder.mkdir()
        if name != "gone":
            write(folder / LOG, 0, 2000)
        handle = {"launch": name, "folder": str(folder)}
        factories.runtime_make(
            project, SessionState.READY, launch_handle=handle, launcher=launchers[name]
        )

    def bound(path: Path) -> bool:
        if path.parent.name == "refused":
            raise OSError(13, "Permission denied")
        return log_bound(path, limit_bytes=LIMIT)

    monkeypatch.setattr(logs, "log_bound", bound)
    assert logs.runtime_logs_bound in periodic_tasks.PERIODIC_TASKS
    logs.runtime_logs_bound()
    assert [(folders[name] / LOG).stat().st_size for name in ("ours", "units")] == [0, 0]
    assert (folders["slurms"] / LOG).stat().st_size > LIMIT
    assert [record.getMessage() for record in caplog.records] == [
        "the log of refused could not be kept small: [Errno 13] Permission denied"
    ]


def test_the_log_of_the_store_is_kept_small_while_it_writes(
    settings, tmp_path, monkeypatch, caplog
) -> None:
    settings.DATA = tmp_path
    path = tmp_path / "s3" / "weed.log"
    assert logs.store_log_bound in periodic_tasks.PERIODIC_TASKS
    logs.store_log_bound()  # a store of others: there is no log
    monkeypatch.setattr(logs, "log_bound", lambda path: log_bound(path, limit_bytes=LIMIT))

    def store(data: Path, *, log: int, **_: object) -> None:
        """As weed does, through the descriptor that it is started with."""
        os.write(log, b"".join(f"line {number}\n".encode() for number in range(2000)))
        logs.store_log_bound()
        os.write(log, b"line 2000\n")

    monkeypatch.setattr(seaweedfs, "start", store)
    up.store_start()
    assert path.read_bytes() == b"line 2000\n" and path.with_name(
        "weed.log.1"
    ).read_bytes().endswith(b"line 1999\n")
    monkeypatch.setattr(
        logs, "log_bound", lambda path: (_ for _ in ()).throw(OSError(13, "Permission denied"))
    )
    logs.store_log_bound()
    assert "log of the embedded store could not be kept small" in caplog.text


def test_all_lines_that_are_searched_and_kept_are_read(path) -> None:
    path.write_text("".join(f"line {number} {'x' * 150}\n" for number in range(2 * logs.MAX_LINES)))
    assert numbers(log_tail(path, lines=logs.MAX_LINES)) == list(
        range(logs.MAX_LINES, 2 * logs.MAX_LINES)
    )
