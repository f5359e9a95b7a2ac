"""A rank on another node of the runtime's job: started, heard and ended through ``srun``, or
pod_exec.py.

It has the methods of a process that ranks.py uses. A node that falls silent is a rank that is lost:
a thread here listens, also while no command runs. A part of an engine is such a process too
(loading/engine_nodes.py).
"""

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, TypeVar

from gpu_runtime.health.notice import kept_from_children
from gpu_runtime.processes.exit_report import ExitReport
from gpu_runtime.processes.several_threads import environment_now

from .line import versions, versions_differ
from .pods import LOST, pod_name, pods

# Seconds to the first sign of life, which a rank gives before it imports anything large, and
# between two of them.
START_S, SILENT_S = 50.0, 30.0
END_S = 10.0
MODULE = "gpu_runtime.training.nodes.remote_main"
POD_MODULE = "gpu_runtime.training.nodes.pod_exec"


class OnNode(Protocol):
    """What a process is told of itself."""

    @property
    def node(self) -> str:
        """The name of its node."""
        ...


SpecT = TypeVar("SpecT", bound=OnNode)


class RemoteRank(Generic[SpecT]):
    """The rank of ``spec`` on ``spec.node``. ``main`` runs there, with a line for its
    connection.
    """

    def __init__(
        self, spec: SpecT, main: Callable[[Any, SpecT], None], own_node: str, name: str
    ) -> None:
        self._node, self._own_node, self.name = spec.node, own_node, name
        ours, theirs = socket.socketpair()
        self.words = ExitReport(name)
        with kept_from_children(), theirs:
            self._starter = subprocess.Popen(
                _command(spec.node),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self.words.far.fileno(),
                env=environment_now(),
            )
        self.words.begin()
        self.pid = self._starter.pid
        self._receive_within(ours, START_S)
        self._far = Connection(ours.detach())
        with suppress(OSError):  # it has ended already, which the thread finds
            self._far.send((main, spec))
        near, self._forward = Pipe(duplex=False)
        self.connection = RemoteConnection(near, self._far)
        self.sentinel, self._over = Pipe(duplex=False)  # readable once the thread has ended
        self._thread = threading.Thread(target=self._listen, name=self.name, daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether it was heard of lately."""
        return self._thread.is_alive()

    def kill(self) -> None:
        """End it; its process over there ends with its line."""
        self._starter.kill()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._thread.join(timeout)

    @property
    def exitcode(self) -> int | None:
        """As of a process beside this one: negative for a signal, which its starter says as 128 and
        its number.
        """
        code = self._starter.poll()
        return code if code is None or code <= 128 else 128 - code

    def _listen(self) -> None:
        try:
            while True:
                kind, value = self._far.recv()
                if kind == "hello":
                    self._receive_within(self._far, SILENT_S)
                    if differ := versions_differ(self._node, value, self._own_node, versions()):
                        self._forward.send(("differ", differ))
                        break
                elif kind != "alive":
                    self._forward.send((kind, value))
        except BlockingIOError:  # nothing came for that long
            self._say(f"node {self._node} is not reached: no sign of life of {self.name} on it")
        except (EOFError, OSError):
            with suppress(subprocess.TimeoutExpired):
                if self._starter.wait(END_S) == LOST and pods():
                    self._say(f"node {self._node} is lost: its pod went away under {self.name}")
        finally:
            self._starter.kill()
            self._starter.wait()
            self._forward.close()
            self._over.close()

    def _say(self, what_failed: str) -> None:
        with suppress(OSError):
            self._forward.send(("failed", what_failed))

    @staticmethod
    def _receive_within(end: socket.socket | Connection, seconds: float) -> None:
        with socket.socket(fileno=os.dup(end.fileno())) as same:
            same.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(seconds), 0)
            )


class RemoteConnection:
    """Sends to the rank itself and receives what the listening thread passed on."""

    def __init__(self, near: Connection, far: Connection) -> None:
        self._near, self._far = near, far

    def fileno(self) -> int:
        """What a wait for a message looks at."""
        return self._near.fileno()

    def send(self, message: object) -> None:
        """Raises BrokenPipeError where the rank has ended."""
        self._far.send(message)

    def recv(self) -> Any:
        """The next message. Raises EOFError after the last."""
        return self._near.recv()

    def close(self) -> None:
        """Of both."""
        self._near.close()
        self._far.close()


def _command(node: str) -> list[str]:
    """One task on ``node`` within the job, beside what else runs there."""
    if there := [address for address in pods() if pod_name(address) == node]:
        return [sys.executable, "-m", POD_MODULE, *there]
    within = [
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node}",
        "--mem=0",
        "--export=ALL",
    ]
    if given := os.environ.get("SLURM_CPUS_PER_TASK"):  # srun takes it from its options alone
        within.append(f"--cpus-per-task={given}")
    return [
        "srun",
        *within,
        "--quiet",
        "--unbuffered",
        "--kill-on-bad-exit=1",
        sys.executable,
        "-m",
        MODULE,
    ]
