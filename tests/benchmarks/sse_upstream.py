"""A scripted upstream for tests/benchmarks/relay.py: streams chat completion chunks as a gateway
does, at little cost.

    python sse_upstream.py TOKENS TOKEN_MS [in-step]

Prints its address, then serves until it is ended. Each piece carries the clock
(``time.monotonic_ns``, which processes of one machine share) at which it was sent. ``in-step``: all
streams get their next piece at the same tick, as from an engine that decodes them as one batch;
without it each stream keeps its own time.
"""

import asyncio
import re
import sys
import time

import uvloop

LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-store\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
# As long as the gateway's own pieces: they carry token ids and log-probabilities too.
PIECE = (
    'data: {"id":"chatcmpl-5f6c1d","object":"chat.completion.chunk","created":1790000000,"model":"m","choices":[{'
    '"index":0,"delta":{"content":"%d "},"logprobs":{"content":[{"token":" word","logprob":-0.7313,"bytes":[32,119],'
    '"top_logprobs":[]}],"refusal":null},"finish_reason":null,"token_ids":[5427]}]}\n\n'
)
LAST = (
    b'data: {"id":"chatcmpl-5f6c1d","object":"chat.completion.chunk","created":1790000000,"model":"m","choices":[{'
    b'"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


class Pace:
    """When the pieces go out. ``started``: the streams that wait for the next tick, with the pieces
    each has left.
    """

    def __init__(self, tokens: int, token_s: float, *, in_step: bool) -> None:
        self.tokens, self.token_s, self.in_step = tokens, token_s, in_step
        self.started: dict[asyncio.Transport, int] = {}
        self.loop = asyncio.get_running_loop()
        if in_step:
            self.loop.call_later(token_s, self.tick)

    def begin(self, transport: asyncio.Transport) -> None:
        """Stream one answer to this client."""
        if self.in_step:
            self.started[transport] = self.tokens
        else:
            self.loop.call_later(self.token_s, self.step, transport, self.tokens)

    def tick(self) -> None:
        """One step of the engine: a piece for everybody."""
        self.loop.call_later(self.token_s, self.tick)
        for transport, left in list(self.started.items()):
            if put(transport, left, self.tokens):
                self.started[transport] = left - 1
            else:
                del self.started[transport]

    def step(self, transport: asyncio.Transport, left: int) -> None:
        """A piece for one."""
        if put(transport, left, self.tokens):
            self.loop.call_later(self.token_s, self.step, transport, left - 1)


def put(transport: asyncio.Transport, left: int, tokens: int) -> bool:
    """Send the next piece, or the end when none is left; False when there is nothing more to
    send.
    """
    if transport.is_closing():
        return False
    if left == 0:
        transport.write(chunk(LAST) + b"0\r\n\r\n")
        return False
    piece = chunk((PIECE % time.monotonic_ns()).encode())
    transport.write(HEAD + piece if left == tokens else piece)
    return True


def chunk(data: bytes) -> bytes:
    """As chunked transfer encoding wants it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """One client: whatever it asks for, it gets a stream."""

    def __init__(self, pace: Pace) -> None:
        self.pace, self.received = pace, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, separator, body = self.received.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if separator and len(body) >= (int(length[1]) if length else 0):
            self.received = b""
            self.pace.begin(self.transport)


async def main() -> None:
    pace = Pace(int(sys.argv[1]), float(sys.argv[2]) / 1000, in_step="in-step" in sys.argv)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(pace), "127.0.0.1", 0, backlog=1024
    )
    print("{}:{}".format(*server.sockets[0].getsockname()[:2]), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
