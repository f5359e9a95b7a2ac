"""Stack dumps: where every thread of every process of a runtime stands, read from outside by
py-spy.

Each process registers once, by a file that carries its name and pid. py-spy then reads the
process's memory without stopping it: nothing runs in the process that is looked at, so a dump
cannot crash it, and a process that stands still in C or is stopped (SIGSTOP) is read like any
other. CPython's own ``faulthandler`` reads other threads' frames unguarded and was seen to crash
Python 3.11.
"""

import ctypes
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

SUFFIX = ".process"
MAX_BYTES = 32 << 10  # of one process
DUMP_S = 10.0  # for one process
TRIES, BETWEEN_TRIES_S = 3, 0.2  # a stack that changes while it is read cannot be followed
AT_ONCE = 8  # processes read at a time
PR_SET_PTRACER = 0x59616D61  # prctl(2)


def stacks_folder() -> Path | None:
    """Where the processes of this runtime register; None outside a runtime. Children inherit the
    variable.
    """
    volume = os.environ.get("TINKERSCRIPT_RUNTIME_DIR")
    return Path(volume) / "stacks" if volume else None


def stacks_register(folder: Path | None, name: str) -> None:
    """From now on ``stacks_collect(folder)`` reads this process too; nothing to do outside a
    runtime.
    """
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{os.getpid()}{SUFFIX}"
    path.touch()
    _allow_reading()


def _allow_reading() -> None:
    """Where Linux lets only ancestors read a process (Yama), let the runtime's own processes do it
    too.

    The whole runtime is one session of processes, whose leader is an ancestor of the process that
    reads.
    """
    if sys.platform == "linux":
        # an error means that nothing forbids it
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, os.getsid(0), 0, 0, 0)


def stacks_clear(folder: Path) -> None:
    """Forget the processes of an earlier runtime."""
    for path in folder.glob(f"*{SUFFIX}"):
        if not _lives(_pid(path)):
            path.unlink()


def stacks_collect(folder: Path) -> str:
    """The stacks of every registered process that lives, as one text, each under its process's
    name.
    """
    living = [path for path in sorted(folder.glob(f"*{SUFFIX}")) if _lives(_pid(path))]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        stacks = list(pool.map(_stack, map(_pid, living)))
    names = [path.name.removesuffix(SUFFIX) for path in living]
    return "\n".join(f"== {name} ==\n{text}" for name, text in zip(names, stacks, strict=True))


def _pid(path: Path) -> int:
    return int(path.name.removesuffix(SUFFIX).rpartition(".")[2])


def _lives(pid: int) -> bool:
    """It runs, and is still one of ours: another may have been given its pid."""
    with suppress(ProcessLookupError):
        return os.getsid(pid) == os.getsid(0)
    return False


def _stack(pid: int) -> str:
    """One process's stacks, or in brackets why there are none."""
    command = [_py_spy(), "dump", "--nonblocking", "--pid", str(pid)]
    problem = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(BETWEEN_TRIES_S)
        try:
            dump = subprocess.run(command, capture_output=True, timeout=DUMP_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"(its stacks could not be read: {error})\n"
        if dump.returncode == 0:
            return dump.stdout[-MAX_BYTES:].decode(errors="replace")
        problem = dump.stderr.decode(errors="replace").strip()
    return f"(its stacks could not be read: {problem})\n"


def _py_spy() -> str:
    """The program beside this Python, as pip installs it; else whatever the PATH has."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else "py-spy"
