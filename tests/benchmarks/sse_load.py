"""The load of tests/benchmarks/relay.py: clients on raw sockets, each with one stream at a time,
and what they saw.
"""

import asyncio
import random
import re
import time
from dataclasses import dataclass, field

SENT = re.compile(rb'"content": ?"(\d+) "')  # the clock at which the upstream sent the piece
END = b"0\r\n\r\n"
BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Say something."}]}'


@dataclass
class Samples:
    """What the clients saw, in seconds: from the request to the first piece and to the end of the
    answer, and from the upstream's sending of each piece to its arrival.
    """

    first_s: list[float] = field(default_factory=list)
    last_s: list[float] = field(default_factory=list)
    piece_s: list[float] = field(default_factory=list)
    requests: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: "Samples") -> None:
        """Count another round in."""
        self.first_s += other.first_s
        self.last_s += other.last_s
        self.piece_s += other.piece_s
        self.requests += other.requests
        self.failures += other.failures
        self.seconds += other.seconds


@dataclass
class Plan:
    """One round: ``request`` is sent again and again until ``until`` (``time.monotonic``); what
    begins before ``since`` is warm-up and not counted.
    """

    request: bytes
    pieces: int
    pause_s: float
    since: float
    until: float


class Client(asyncio.Protocol):
    """One stream after another on one connection, with a pause of random length between them."""

    def __init__(self, plan: Plan, samples: Samples) -> None:
        self.plan, self.samples = plan, samples
        self.loop = asyncio.get_running_loop()
        self.done = self.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.loop.call_later(random.uniform(0, 1), self.ask)

    def ask(self) -> None:
        self.rest, self.pieces, self.first_at = b"", 0, 0.0
        self.began_at = time.monotonic()
        if self.began_at >= self.plan.until:
            self.transport.close()
        else:
            self.transport.write(self.plan.request)

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        text, after = self.rest + data, 0
        for match in SENT.finditer(text):
            after = match.end()
            self.pieces += 1
            if self.began_at >= self.plan.since:
                self.samples.piece_s.append((now_ns - int(match[1])) / 1e9)
        self.rest = text[after:]
        if after and not self.first_at:
            self.first_at = now_ns / 1e9
        if text.endswith(END):
            self.finish(now_ns / 1e9)

    def finish(self, now: float) -> None:
        self.samples.requests += 1
        if self.pieces != self.plan.pieces:
            self.samples.failures.append(
                f"{self.pieces} of {self.plan.pieces} pieces; {self.rest[-300:]!r}"
            )
        elif self.began_at >= self.plan.since:
            self.samples.first_s.append(self.first_at - self.began_at)
            self.samples.last_s.append(now - self.began_at)
        self.loop.call_later(
            random.expovariate(1 / self.plan.pause_s) if self.plan.pause_s else 0, self.ask
        )

    def connection_lost(self, error: Exception | None) -> None:
        if time.monotonic() < self.plan.until:
            self.samples.failures.append(
                f"the connection was lost: {error}; {getattr(self, 'rest', b'')[-300:]!r}"
            )
        if not self.done.done():
            self.done.set_result(None)


async def load(
    address: str,
    path: str,
    key: str,
    *,
    streams: int,
    pieces: int,
    pause_s: float,
    seconds: float,
    warm_s: float,
) -> Samples:
    """``streams`` clients for ``seconds`` after a warm-up of ``warm_s``."""
    request = (
        f"POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nuser-agent: OpenAI/Python\r\n"
        f"accept: application/json\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
    ).encode() + BODY
    began, samples = time.monotonic(), Samples()
    plan = Plan(request, pieces, pause_s, began + warm_s, began + warm_s + seconds)
    host, _, port = address.partition(":")
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda: Client(plan, samples), host, int(port)))[1]
        for _ in range(streams)
    ]
    await asyncio.wait_for(
        asyncio.gather(*(client.done for client in clients)), warm_s + seconds + 120
    )
    samples.seconds = time.monotonic() - began
    return samples
