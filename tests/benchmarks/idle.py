"""CPU time and memory of every process of a ``manage.py up`` that has nothing to do.

    .venv/bin/python tests/benchmarks/idle.py            without a runtime that waits
    ... --warm                                           with the one that the server keeps by default

The server is a real one in a folder of its own, at its second start there: a store that had been
started before did not rest. CPU time is read from /proc/PID/stat: it counts on a busy machine too.
Target: under 2 % of a core in all processes, under 700 MB without a runtime that waits.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from serving import ROOT, free_port

READY_S, WARM_S, END_S = 180.0, 120.0, 40.0


def seconds_used(top: psutil.Process) -> dict[str, float]:
    """CPU seconds until now of a process and all that it started, by pid and name."""
    found = {}
    for process in [top, *top.children(recursive=True)]:
        used = process.cpu_times()
        found[f"{process.pid} {name(process)}"] = used.user + used.system
    return found


def name(process: psutil.Process) -> str:
    """What of its command distinguishes it."""
    words = [word for word in process.cmdline()[1:] if not word.startswith("-logtostderr")]
    return " ".join([Path(process.exe()).name, *words[:3]])[:60]


def memory_bytes(top: psutil.Process) -> int:
    """The memory of all, what they share counted once."""
    return sum(process.memory_full_info().pss for process in [top, *top.children(recursive=True)])


def measure(top: psutil.Process, *, settle_s: float, seconds: float) -> None:
    """Print the table."""
    time.sleep(settle_s)
    before, began = seconds_used(top), time.monotonic()
    time.sleep(seconds)
    after, lasted = seconds_used(top), time.monotonic() - began
    print("| process | CPU, % of a core |\n| --- | ---: |")
    total = 0.0
    for process, used in after.items():
        share = 100 * (used - before.get(process, 0.0)) / lasted
        total += share
        print(f"| {process} | {share:.2f} |")
    print(f"| all, {lasted:.0f} s, {memory_bytes(top) / 1e6:.0f} MB | {total:.2f} |")


def main() -> None:
    """Start a server, end it, start it again, let it settle, measure, and end it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--warm", action="store_true", help="with the runtime that waits for a session"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "TINKERSCRIPT_DATA": folder,
            "TINKERSCRIPT_PORT": str(free_port()),
        }
        if not options.warm:
            environment["TINKERSCRIPT_WARM"] = "0"
        with server_run(environment, Path(folder) / "first.log"):
            pass
        with server_run(environment, Path(folder) / "up.log") as pid:
            settle_s = WARM_S if options.warm else 30.0
            measure(psutil.Process(pid), settle_s=settle_s, seconds=options.seconds)


@contextmanager
def server_run(environment: dict[str, str], log: Path) -> Iterator[int]:
    """The process of a server that is ready; it is ended at the end."""
    with log.open("wb") as output:
        command = [sys.executable, "manage.py", "up"]
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + READY_S
        while "\nready " not in log.read_text():
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the server did not start:\n{log.read_text()}")
            time.sleep(0.2)
        yield server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(END_S)
        except subprocess.TimeoutExpired:
            server.kill()


if __name__ == "__main__":
    main()
