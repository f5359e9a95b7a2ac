"""Identifies processes for certain: a pid alone may have been reused by another process.

A process is its pid together with its start time (field 22 of /proc/PID/stat, in clock ticks since
boot). Signals go through a pidfd, so that nothing can change between looking and sending.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class ProcessStat:
    """What /proc says: ``state`` is a letter (Z: ended, not collected by its parent), ``sid`` its
    session.

    A process whose first thread alone has ended is not Z but D: the others hold its memory and its
    devices.
    """

    pid: int
    state: str
    sid: int
    start_time: int


def stat_read(pid: int) -> ProcessStat | None:
    """The process, or None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold spaces and parentheses itself.
    fields = text.rpartition(")")[2].split()
    threads_live = fields[0] == "Z" and int(fields[17]) > 1
    return ProcessStat(
        pid=pid,
        state="D" if threads_live else fields[0],
        sid=int(fields[3]),
        start_time=int(fields[19]),
    )


def stat_get(pid: int) -> ProcessStat:
    """A process that is there: this one, or a child that was not collected. Raises
    ProcessLookupError.
    """
    stat = stat_read(pid)
    if stat is None:
        raise ProcessLookupError(f"there is no process {pid}")
    return stat


def is_running(pid: int, start_time: int) -> bool:
    """Whether this very process runs."""
    stat = stat_read(pid)
    return stat is not None and stat.start_time == start_time and stat.state not in "ZX"


def signal_send(pid: int, start_time: int, number: signal.Signals) -> bool:
    """Signal this very process; False when it is not there."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        stat = stat_read(pid)
        if stat is None or stat.start_time != start_time:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def processes_list() -> Iterable[ProcessStat]:
    """Every process of the machine."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := stat_read(int(name))) is not None:
            yield stat


def has_environment(pid: int, *entries: str) -> bool:
    """Whether a process was started with one of ``NAME=value`` in its environment (False where we
    may not look).
    """
    found = _environment(pid)
    return any(entry.encode() in found for entry in entries)


def environment_find(pid: int, prefix: str) -> str | None:
    """The first ``NAME=value`` of a process's environment that begins with ``prefix`` (None where
    we may not look).
    """
    found = (entry for entry in _environment(pid) if entry.startswith(prefix.encode()))
    return next((entry.decode() for entry in found), None)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def listens_on_loopback(pid: int, port: int) -> bool:
    """Whether a process holds a socket that takes connections to 127.0.0.1:``port`` (False where we
    may not look).
    """
    try:
        held = psutil.Process(pid).net_connections("tcp4")
    except psutil.Error:
        return False
    return any(
        it.status == psutil.CONN_LISTEN
        and it.laddr.port == port
        and it.laddr.ip in ("127.0.0.1", "0.0.0.0")
        for it in held
    )


def wait_until(condition: Callable[[], bool], *, timeout_s: float, poll_s: float = 0.02) -> bool:
    """Whether ``condition`` became true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_s)
    return True
