"""A trainer's rank as an actor of Ray, and the runtime's end of it: what ranks.py uses of a
process.
"""

import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from typing import Any

from gpu_runtime.errors import TrainerFailed

from .group import Group
from .joining import ray_import

OVER = object()
POLL_S = 1.0
START_S = 120.0
# In which Ray finds that a node is lost whose actors are not reached any more, and in which it
# tells so of one whose actors are known to have ended.
LOST_S, TOLD_S = 30.0, 3.0

Main = Callable[[Any, Any], None]  # a connection, and the rank's RankSpec


def environment_take(given: Mapping[str, str | None]) -> None:
    """In an actor: the runtime's variables, and files that are this user's alone."""
    os.umask(0o077)
    for name, value in given.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


class RankActor:
    """The rank itself. It ends with the runtime, whose actor it is."""

    def __init__(self, environment: Mapping[str, str | None]) -> None:
        environment_take(environment)
        self._commands: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._listener: socket.socket | None = None

    def meeting(self) -> str:
        """Where this rank, the first, waits for the others: on its node's own address alone."""
        ray = ray_import()
        self._listener = socket.create_server((ray.util.get_node_ip_address(), 0))
        host, port = self._listener.getsockname()[:2]
        return f"tcp://{host}:{port}"

    def run(self, main: Main, spec: Any) -> Iterator[Any]:
        """Be the rank of ``spec``; what it answers, until it ends."""
        if self._listener is not None:
            at = f"{spec.rendezvous_path}#{self._listener.detach()}"
            spec = replace(spec, rendezvous_path=at)

        def work() -> None:
            try:
                main(self, spec)
            finally:
                self._answers.put(OVER)

        threading.Thread(target=work, name="rank", daemon=True).start()
        while (answer := self._answers.get()) is not OVER:
            yield answer

    def tell(self, message: object) -> None:
        """A command for it."""
        self._commands.put(message)

    def recv(self) -> Any:
        """As of the Connection that a rank beside its runtime has."""
        return self._commands.get()

    def send(self, message: object) -> None:
        """As of the Connection that a rank beside its runtime has."""
        self._answers.put(message)


class RayRank:
    """A rank on ``node`` of the group. The first one tells where it waits (``meeting``)."""

    def __init__(self, group: Group, node: int, name: str) -> None:
        self._group, self.name = group, name
        self._actor = group.actor(RankActor, node, max_concurrency=3)
        self._is_killed = False
        near, self._forward = Pipe(duplex=False)
        self.connection = RankConnection(near, self._actor)
        self.words = self
        self.sentinel, self._over = Pipe(duplex=False)  # readable once the thread has ended
        self._thread = threading.Thread(target=self._listen, name=self.name, daemon=True)

    def meeting(self) -> str:
        """Raises TrainerFailed where it could not be started."""
        ray = ray_import()
        try:
            return str(ray.get(self._actor.meeting.remote(), timeout=START_S))
        except (ray.exceptions.RayError, TimeoutError) as error:
            raise TrainerFailed(f"{self.name} could not be started: {error}") from error

    def start(self, main: Main, spec: Any) -> None:
        """Run ``main`` there."""
        running = self._actor.run.options(num_returns="streaming")
        self._answers = running.remote(main, spec)
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether it and its node are."""
        return self._thread.is_alive()

    def kill(self) -> None:
        """End it."""
        ray_import().kill(self._actor)

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    @property
    def exitcode(self) -> int | None:
        """As of a process beside this one: that of SIGKILL where it ended and its node lives."""
        return -signal.SIGKILL if self._is_killed else 1

    def end_of(self, exitcode: int | None) -> str:
        """In words how it ended."""
        if self._group.lost:
            return f"is lost with node {self._group.lost}"
        return "was killed" if exitcode == -signal.SIGKILL else "ended"

    def _listen(self) -> None:
        ray = ray_import()
        try:
            while not self._group.lost:
                ready, _ = ray.wait([self._answers], timeout=POLL_S)
                if ready:
                    self._forward.send(ray.get(next(self._answers)))
        except (StopIteration, OSError):
            pass
        except ray.exceptions.RayError as error:
            ended = isinstance(error, ray.exceptions.ActorDiedError)
            self._is_killed = not self._group.lost_within(TOLD_S if ended else LOST_S)
        finally:
            self._forward.close()
            self._over.close()


class RankConnection:
    """Sends to the rank itself and receives what the listening thread passed on."""

    def __init__(self, near: Any, actor: Any) -> None:
        self._near, self._actor = near, actor

    def fileno(self) -> int:
        """What a wait for a message looks at."""
        return int(self._near.fileno())

    def send(self, message: object) -> None:
        """Returns at once; a rank that has ended is found by its sentinel."""
        with suppress(ray_import().exceptions.RayError):
            self._actor.tell.remote(message)

    def recv(self) -> Any:
        """The next message. Raises EOFError after the last."""
        return self._near.recv()

    def close(self) -> None:
        """Of the runtime's end."""
        self._near.close()
