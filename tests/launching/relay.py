"""A TCP port of one network that leads to a port of another one on this machine."""

import queue
import socket
import threading
from contextlib import closing, suppress

CONNECT_S = 20


class Relay:
    """To ``address``, in the network of the thread that makes it; ``listen`` may be called in
    another network.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._asked: queue.SimpleQueue[socket.socket | None] = queue.SimpleQueue()
        self._listener: socket.socket | None = None
        # A thread begins in the network of the one that starts it, and what it opens is there.
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def listen(self, host: str) -> str:
        """From a free port of ``host`` on; its URL."""
        self._listener = socket.create_server((host, 0))
        self._asked.put(self._listener)
        return f"http://{host}:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Take no further connection. Those that are there end with their ends."""
        self._asked.put(None)
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(CONNECT_S)

    def _serve(self) -> None:
        listener = self._asked.get()
        if listener is None:
            return
        with closing(listener), suppress(OSError):
            while True:
                near, _ = listener.accept()
                threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        with (
            closing(near),
            suppress(OSError),
            socket.create_connection(self._address, timeout=CONNECT_S) as far,
        ):
            far.settimeout(None)
            back = threading.Thread(target=_pass_on, args=(far, near), daemon=True)
            back.start()
            _pass_on(near, far)
            back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
