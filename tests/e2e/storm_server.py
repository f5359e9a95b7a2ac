"""The server of the session storm: ``manage.py up`` with fake runtimes, each process of which can
be killed by name.
"""

import json
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

from e2e.loop_server import LoopServer, wait_for_line

from console.scheduling import processes
from console.scheduling.launchers.process import MARK
from console.scheduling.launchers.protocol import launch_session

# the longest that a process may be away: its supervisor waits 10 s at most, a leader's lease too
VICTIM_S = 90.0


class StormServer(LoopServer):
    """``start`` and ``close``; between them ``kill_one``. ``at_once``: sessions that may run at a
    time.
    """

    def __init__(self, folder: Path, *, at_once: int) -> None:
        super().__init__(folder)
        self.environment["TINKERSCRIPT_MAX_RUNTIMES"] = str(at_once)

    def start(self) -> None:
        """Return when it serves. Its own reconciler launches our runtimes."""
        self._up = self._spawn("up", str(Path(__file__).with_name("up_with_fakes.py")), "up")
        wait_for_line(self._up, "ready")
        if not self.api_key:
            self.api_key = self.make_key("alice@example.com")

    def kill_one(self, whom: str, choose: Callable[[list[str]], str | None]) -> str | None:
        """SIGKILL of "runtime", "web", "lease", "reconcile", "store" or "up", which is started
        again; the others by it.

        ``choose`` takes one of the sessions that have a process, or none. Answers the session of a
        runtime.
        """
        if whom == "up":
            self.kill()
            self.start()
            return None
        killed: list[str | None] = []
        attempt = self._kill_runtime if whom == "runtime" else lambda _: self._kill_child(whom)
        struck = lambda: bool(killed.extend(attempt(choose)) or killed)  # noqa: E731
        if not processes.wait_until(struck, timeout_s=VICTIM_S, poll_s=0.2):
            raise AssertionError(f"for {VICTIM_S:g} s there was no {whom} to kill")
        return killed[0]

    def runtimes(self) -> dict[str, int]:
        """The process of each session that has one now."""
        marks = {
            pid: processes.environment_find(pid, f"{MARK}=") for pid in self._left("storm_runtime")
        }
        return {launch_session(mark.partition("=")[2]): pid for pid, mark in marks.items() if mark}

    def spans(self) -> dict[str, list[tuple[datetime, datetime]]]:
        """Of each session the leases in order: when its runtime registered, when it was last
        used.
        """
        found: dict[str, list[tuple[datetime, datetime]]] = {}
        query = (
            "SELECT session_id, started_at, seen_at FROM console_runtimespan ORDER BY started_at"
        )
        for session_id, *times in self._query(query):
            found.setdefault(session_id, []).append(tuple(map(datetime.fromisoformat, times)))
        return found

    def held(self) -> set[str]:
        """Sessions that still have a lease or a handle of a runtime."""
        query = (
            "SELECT id FROM console_session WHERE launch_handle IS NOT NULL OR lease_sha256 != ''"
        )
        return {row[0] for row in self._query(query)}

    def _query(self, query: str) -> list[tuple]:
        with closing(
            sqlite3.connect(f"file:{self.data / 'console.sqlite3'}?mode=ro", uri=True, timeout=20)
        ) as books:
            return books.execute(query).fetchall()

    def _kill_runtime(self, choose: Callable[[list[str]], str | None]) -> list[str]:
        running = self.runtimes()
        session_id = choose(sorted(running))
        if session_id is None or (stat := processes.stat_read(running[session_id])) is None:
            return []
        return (
            [session_id] if processes.signal_send(stat.pid, stat.start_time, signal.SIGKILL) else []
        )

    def _kill_child(self, name: str) -> list[None]:
        try:
            handle = json.loads((self.data / "run" / f"{name}.json").read_text())
        except (FileNotFoundError, ValueError):  # it is being written
            return []
        stat = processes.stat_read(handle["pid"])
        if stat is None or stat.start_time != handle["start_time"] or stat.state in "ZX":
            return []
        return [None] if processes.signal_send(stat.pid, stat.start_time, signal.SIGKILL) else []
