"""Stack dumps: where every thread of every process of a runtime stands, written by the processes themselves.

Each process registers once; sent SIGUSR1, it appends its threads' stacks to a file that carries its name and pid. That
works from C, so also in a process whose interpreter stands still. Only a stopped process (SIGSTOP) says nothing.
"""

import faulthandler
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

SUFFIX = ".stack"
MOST_BYTES = 32 << 10  # of one process: its last dump
SETTLE_S, POLL_S = 2.0, 0.05
_file: TextIO | None = None  # faulthandler keeps its descriptor: it must stay open


def stacks_folder() -> Path | None:
    """Where the processes of this runtime write, for a child that was told nothing else: the session's volume."""
    volume = os.environ.get("TINKERSCRIPT_RUNTIME_DIR")
    return Path(volume) / "stacks" if volume else None


def stacks_on_signal(folder: Path | None, name: str) -> None:
    """From now on SIGUSR1 makes this process write its stacks: into ``folder``, or to stderr where there is none."""
    global _file
    if folder is None:
        faulthandler.register(signal.SIGUSR1, file=sys.__stderr__ or sys.stderr)
        return
    folder.mkdir(parents=True, exist_ok=True)
    earlier, _file = _file, (folder / f"{name}.{os.getpid()}{SUFFIX}").open("w")
    faulthandler.register(signal.SIGUSR1, file=_file.fileno())
    if earlier is not None:
        earlier.close()


def stacks_clear(folder: Path) -> None:
    """Forget the files of processes that are no more, before anybody registers."""
    for path in folder.glob(f"*{SUFFIX}"):
        path.unlink()


def stacks_collect(folder: Path, *, timeout_s: float = SETTLE_S) -> str:
    """Ask every registered process for its stacks; all of them as one text, each under its process's name."""
    sizes_before = {path: path.stat().st_size for path in sorted(folder.glob(f"*{SUFFIX}"))}  # a dump may be instant
    asked = {path: size for path, size in sizes_before.items() if _ask(path)}
    deadline = time.monotonic() + timeout_s
    sizes = dict(asked)
    while time.monotonic() < deadline:
        time.sleep(POLL_S)
        now = {path: path.stat().st_size for path in asked}
        if now == sizes and all(now[path] > before for path, before in asked.items()):
            break
        sizes = now
    return "\n".join(f"== {path.name.removesuffix(SUFFIX)} ==\n{_last(path, before)}" for path, before in asked.items())


def _ask(path: Path) -> bool:
    """Send the signal, if the process is still one of ours: another may have been given its pid."""
    pid = int(path.name.removesuffix(SUFFIX).rpartition(".")[2])
    with suppress(ProcessLookupError):
        if os.getsid(pid) == os.getsid(0):
            os.kill(pid, signal.SIGUSR1)
            return True
    return False


def _last(path: Path, start: int) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start, size - MOST_BYTES))
        return file.read().decode(errors="replace") or "(it did not answer: it is stopped or ending)\n"
