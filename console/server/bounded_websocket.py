"""uvicorn's protocol for WebSockets with a bound on the time that a client may take to read what it
was sent.

Without it a client that reads nothing keeps its connection, and its place among the watchers, for
ever: where it answers no ping either, and where its key is revoked, the connection is closed only
once all that was sent is read.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tinkerscript.processes.bounded_http import ReadingBound


class BoundedWebSocket(ReadingBound, WebSocketsSansIOProtocol):
    """Wherever something is sent, and wherever uvicorn closes, what is unread by then has its
    time.
    """

    def connection_lost(self, exc: Exception | None) -> None:
        self._reading_ended()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():  # the client has said that it goes
            self._reading_begins()

    async def send(self, message: Any) -> None:
        await super().send(message)
        self._reading_begins()

    def send_keepalive_ping(self) -> None:
        super().send_keepalive_ping()
        self._reading_begins()
