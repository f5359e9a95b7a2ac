"""uvicorn's HTTP protocol with bounds: on the size of a request's head, and on the time that head,
body and the reading of the response may take.

Without them a client that opens connections and sends nothing, or a byte now and then, keeps each
for ever; one that does not read keeps its response in memory too. Servers and gateways have it; no
client needs it, or uvicorn.
"""

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT_BYTES = 64 << 10
# From the opened connection, or from the first byte of a later request on it, to the end of the
# head. Seconds.
HEAD_S = 10.0
# A body is looked at this often, and after the grace must have come at this rate on average since
# it was last fast.
BODY_CHECK_S, BODY_GRACE_S, BODY_BYTES_PER_S = 5.0, 30.0, 8 << 10
# Of a response that waits for its client to read, the same: after the grace it must have gone at
# this rate on average.
READ_CHECK_S, READ_GRACE_S, READ_BYTES_PER_S = 5.0, 60.0, 1 << 10
AT_ONCE = struct.pack("ii", 1, 0)
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: "
    b"0\r\n\r\n"
)
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class ReadingBound:
    """Of a protocol of asyncio whose client has to read what it was sent: else its connection is
    reset.
    """

    read_check_s, read_grace_s = READ_CHECK_S, READ_GRACE_S
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    unread_bytes, unread_since = 0, 0.0
    # beside any other deadline: a next request may be on its way
    reading: asyncio.TimerHandle | None = None

    def _reading_begins(self) -> None:
        if self.reading is None and self.transport.get_write_buffer_size():
            self.unread_bytes, self.unread_since = (
                self.transport.get_write_buffer_size(),
                time.monotonic(),
            )
            self.reading = self.loop.call_later(self.read_check_s, self._check_reading)

    def _check_reading(self) -> None:
        unread_bytes, self.reading = self.transport.get_write_buffer_size(), None
        late_s = time.monotonic() - self.unread_since - self.read_grace_s
        read_bytes = self.unread_bytes - unread_bytes
        # More was written, which is once most was read, or enough was read so far: its time begins
        # anew.
        if read_bytes < 0 or read_bytes >= self.read_grace_s * READ_BYTES_PER_S:
            self._reading_begins()
        elif unread_bytes and late_s > 0 and read_bytes < late_s * READ_BYTES_PER_S:
            # Closing would wait for it to read, here and then in the system, which keeps what is
            # not sent.
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE
            )
            self.transport.abort()
        elif unread_bytes:
            self.reading = self.loop.call_later(self.read_check_s, self._check_reading)

    def _reading_ended(self) -> None:
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None


class BoundedHttp(ReadingBound, HttpToolsProtocol):
    """Refuses a head without end (431) and a request that does not arrive in time (408), and closes
    the connection.

    It closes that of a client that does not read its response too.
    """

    head_s, body_check_s, body_grace_s = HEAD_S, BODY_CHECK_S, BODY_GRACE_S

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.is_in_head, self.head_bytes = False, 0
        self.body_bytes, self.body_began = 0, 0.0
        self.deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._expect(self.head_s, self._refuse_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self._reading_ended()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._expect_nothing()
        self._reading_ended()
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.is_in_head, self.head_bytes = True, 0
        self._expect(self.head_s, self._refuse_slow)

    def on_headers_complete(self) -> None:
        self.is_in_head = False
        self.body_bytes, self.body_began = 0, time.monotonic()
        self._expect(self.body_check_s, self._check_body)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._expect_nothing()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._reading_begins()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading_begins()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_in_head:
            self.head_bytes += len(data)
            if self.head_bytes > HEAD_LIMIT_BYTES:
                self._refuse(TOO_LARGE)

    def _check_body(self) -> None:
        # so far: what comes now has to come as well
        is_fast = self.body_bytes >= self.body_grace_s * BODY_BYTES_PER_S
        if is_fast or self.flow.read_paused:  # paused: it is the application that is slow
            self.body_bytes, self.body_began = 0, time.monotonic()
        late_s = time.monotonic() - self.body_began - self.body_grace_s
        if late_s > 0 and self.body_bytes < late_s * BODY_BYTES_PER_S:
            self._refuse_slow()
        else:
            self._expect(self.body_check_s, self._check_body)

    def _refuse_slow(self) -> None:
        if self.is_in_head and self.cycle is not None and not self.cycle.response_complete:
            # The response to the request before it is still being sent: closing now would cut it.
            self._expect(self.head_s, self._refuse_slow)
        else:
            self._refuse(TOO_SLOW)

    def _refuse(self, response: bytes) -> None:
        self._expect_nothing()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(response)
        self.transport.close()

    def _expect(self, within_s: float, otherwise: Callable[[], None]) -> None:
        self._expect_nothing()
        self.deadline = self.loop.call_later(within_s, otherwise)

    def _expect_nothing(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
