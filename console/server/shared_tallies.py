"""What the web processes of one machine have under way together: calls and bytes of the relay, watchers.

Each counts in its own memory, so that no count waits for a disk and none can fail. A thread writes them to the file of
console.server.shared_counts and reads the others' about ten times a second: a limit may be exceeded by what the others
began in the last 100 ms, or since that thread last ran on a machine that is too busy.
"""

import json
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from console.server.shared_counts import FILE_ERRORS, Statement, counts_file

EXCHANGE_EVERY_S = 0.1


@dataclass(frozen=True)
class Others:
    """What the other processes had when they were last asked."""

    by_key: Counter[str] = field(default_factory=Counter)
    total: int = 0


class Tally(Counter[str]):
    """How much of something this process has under way, by who has it. One thread alone counts."""

    def __init__(self) -> None:
        super().__init__()
        self.own_total = 0
        self.others = Others()  # replaced as a whole, by the thread that exchanges

    def count(self, key: str, amount: int) -> tuple[int, int]:
        """Count so much more of ``key``, or less. Returns how much of it and of all keys there is then, with the last
        known counts of the other processes."""
        self[key] += amount
        self.own_total += amount
        if self[key] <= 0:
            del self[key]
        others = self.others
        return self[key] + others.by_key[key], self.own_total + others.total


class Exchange:
    """Writes one process's tallies to the file, and reads those of the others that live.

    A process is its pid with its start time, in clock ticks since boot: what one had that is gone is not counted.
    """

    def __init__(self, path: Path, *, pid: int | None = None) -> None:
        self._path = path
        self._pid = pid or os.getpid()
        self._tallies: dict[str, Tally] = {}
        self._written: str | None = None
        self._read: list[str] = []

    def tally(self, kind: str) -> Tally:
        """A new one of that kind, which takes the place of one before it."""
        self._tallies[kind] = Tally()
        self._written, self._read = None, []
        return self._tallies[kind]

    def begin(self) -> None:
        """Exchange from now on, in a thread that ends with the process."""
        threading.Thread(target=self._run, name="shared-tallies", daemon=True).start()

    def exchange(self) -> None:
        """Do it once. While the file fails there are no others."""
        file = counts_file(self._path)
        if not file.may_be_used(to_write=True):
            self._forget_others()
            return
        try:
            self._write()
            self._read_others()
        except FILE_ERRORS as error:
            file.set_failed(error)
            self._forget_others()

    def _forget_others(self) -> None:
        self._written, self._read = None, []
        for tally in list(self._tallies.values()):
            tally.others = Others()

    def _run(self) -> None:
        while True:
            self.exchange()
            time.sleep(EXCHANGE_EVERY_S)

    def _write(self) -> None:
        # dict() copies a tally in one step, whatever its own thread does meanwhile.
        counts = json.dumps({kind: dict(tally) for kind, tally in dict(self._tallies).items()})
        if counts != self._written:
            row = [self._pid, _start_time(self._pid), counts]
            counts_file(self._path).write(("INSERT OR REPLACE INTO under_way VALUES (?, ?, ?)", row))
            counts_file(self._path).set_works()
            self._written = counts

    def _read_others(self) -> None:
        rows = counts_file(self._path).read(
            "SELECT pid, start_time, counts FROM under_way WHERE pid != ? ORDER BY pid", [self._pid]
        )
        gone = [(pid, start_time) for pid, start_time, _ in rows if _start_time(pid) != start_time]
        if gone:
            remove = "DELETE FROM under_way WHERE pid = ? AND start_time = ?"
            statements: list[Statement] = [(remove, process) for process in gone]
            counts_file(self._path).write(*statements)
        read = [counts for pid, start_time, counts in rows if (pid, start_time) not in gone]
        if read == self._read:
            return
        self._read = read
        counted = [json.loads(counts) for counts in read]
        for kind, tally in dict(self._tallies).items():
            by_key: Counter[str] = Counter()
            for counts in counted:
                by_key.update(counts.get(kind, {}))
            tally.others = Others(by_key, by_key.total())


@lru_cache(maxsize=1)
def exchange_get(path: Path) -> Exchange:
    """The one of this process."""
    return Exchange(path)


def tally(kind: str) -> Tally:
    """A new one: counted with the other processes' where several of this machine serve together."""
    return exchange_get(settings.SHARED_COUNTS).tally(kind) if settings.SHARED_COUNTS else Tally()


def _start_time(pid: int) -> int | None:
    """Of a process that runs, in clock ticks since boot: field 22 of /proc/PID/stat. None: it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name in parentheses may hold spaces and parentheses itself
    return int(fields[19]) if fields[0] not in "ZX" else None
