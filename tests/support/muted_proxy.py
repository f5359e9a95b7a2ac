"""A server between a browser and another one, whose WebSockets can be muted: they stay open, and
nothing comes.

That is what a browser sees of a cut cable, a laptop that slept, a router that forgot the
connection.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

UPGRADE = b"upgrade: websocket"
CHUNK = 1 << 16


class MutedProxy:
    """Listens on loopback; HTTP passes at all times."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target, self._closed, self._is_mute = target, False, threading.Event()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def mute(self) -> None:
        """From now on nothing comes over the WebSockets that are open, for as long as they are; new
        ones are closed.
        """
        self._is_mute.set()

    def unmute(self) -> None:
        """New WebSockets pass again."""
        self._is_mute.clear()

    def close(self) -> None:
        self._closed = True
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while not self._closed:
            with suppress(OSError):
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                live = threading.Event()  # set: it is a WebSocket that has been muted
                kind: list[bool] = []  # not empty: it is a WebSocket
                threading.Thread(
                    target=self._pass_on, args=(client, server, live, kind, True), daemon=True
                ).start()
                threading.Thread(
                    target=self._pass_on, args=(server, client, live, kind, False), daemon=True
                ).start()

    def _pass_on(
        self,
        source: socket.socket,
        sink: socket.socket,
        muted: threading.Event,
        kind: list[bool],
        is_asking: bool,
    ) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                if is_asking and not kind and UPGRADE in data.lower():
                    if self._is_mute.is_set():
                        break
                    kind.append(True)
                if kind and self._is_mute.is_set():
                    muted.set()
                if not muted.is_set():
                    sink.sendall(data)
        if not muted.is_set():
            for each in (source, sink):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


@contextmanager
def muted_proxy(target: tuple[str, int]) -> Iterator[MutedProxy]:
    """One in front of the server at ``target``."""
    proxy = MutedProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
