"""Daemons that a test run starts for itself, and that end with it, also when it is killed."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

PR_SET_PDEATHSIG = 1
STOP_S = 20
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def daemon(
    command: Sequence[object],
    *,
    log: Path,
    path: str | None = None,
    end_by: signal.Signals = signal.SIGTERM,
    umask: int = -1,
) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon in the foreground, with its output in ``log``; asked to end with the block, killed
    when it does not.
    """
    environment = os.environ | ({"PATH": path} if path else {})
    with log.open("wb") as output:
        program = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            umask=umask,
            # Ctrl-C is for the test run, which ends its daemons in their order
            start_new_session=True,
            preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG, end_by),
        )
    try:
        yield program
    finally:
        program.send_signal(end_by)
        try:
            program.wait(STOP_S)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait(STOP_S)


def ports_find(count: int) -> list[int]:
    """Ports of loopback that are free now."""
    with ExitStack() as opened:
        sockets = [
            opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [listener.getsockname()[1] for listener in sockets]


def folder_remove(folder: Path) -> None:
    """Remove a daemon's folder, and first whatever it left mounted in there."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for path in reversed([path for path in mounted if path.startswith(f"{folder}/")]):
        subprocess.run(["umount", "--lazy", path], check=False, timeout=20)
    shutil.rmtree(folder, ignore_errors=True)
