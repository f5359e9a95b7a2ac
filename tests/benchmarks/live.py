"""What the live channel bears: many websocket clients that follow one session, while its runtime
reports.

    .venv/bin/python tests/benchmarks/live.py     about a minute; --help for the load

Conditions: everything on one machine, clients included (one process). The runtime's reports come in
as they do in the product: POST /v1/runtime/report under its lease, one entry each. Each entry
carries the clock at which its report was begun, so a latency is the whole way: HTTP, commit,
wake-up, fan-out, socket. Some clients are slow: they stop reading for seconds at a time behind a
small receive buffer; they must get every entry too, in fewer and longer pages once the sockets hold
no more (--bytes 100000).

On a machine that has other work too, put `chrt -r 5` before the command (as root): what is measured
goes first.
"""

import argparse
import asyncio
import base64
import gc
import json
import os
import random
import re
import socket
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import uvloop
from serving import ROOT, Served, cpu_s, quantile, served

ENTRY = re.compile(rb'"n":(\d+),"sent_ns":(\d+)')
AT_ONCE = 50  # handshakes in flight
OF_A_KEY = 100  # how many may watch by one key: MAX_PER_CREDENTIAL of console/live/consumer.py
TEXT, CLOSE, PING = 1, 8, 9


@dataclass
class Seen:
    """What one client got: the numbers of the entries in their order, and how old each was."""

    numbers: list[int] = field(default_factory=list)
    ages_s: list[float] = field(default_factory=list)
    pages: int = 0
    closed: str | None = None  # why the connection ended before its reader did


class Client(asyncio.Protocol):
    """A websocket client that can do what this needs: frames without extensions, pongs."""

    def __init__(self, request: bytes) -> None:
        self.request, self.received, self.seen = request, b"", Seen()
        self.is_open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if not self.is_open.done():
            head, separator, rest = self.received.partition(b"\r\n\r\n")
            if not separator:
                return
            if b" 101 " not in head[:20]:
                self.is_open.set_exception(SystemExit(f"no handshake: {self.received[:500]!r}"))
                return
            self.received = rest
            self.is_open.set_result(None)
        while frame := take_frame(self.received):
            opcode, payload, self.received = frame
            if opcode == PING:
                self.transport.write(pong(payload))
            elif opcode == TEXT:
                self.take(payload)
            elif opcode == CLOSE:
                code, reason = int.from_bytes(payload[:2]), payload[2:].decode()
                self.seen.closed = f"{code} {reason}"

    def take(self, page: bytes) -> None:
        now_ns = time.monotonic_ns()
        self.seen.pages += 1
        for match in ENTRY.finditer(page):
            self.seen.numbers.append(int(match[1]))
            self.seen.ages_s.append((now_ns - int(match[2])) / 1e9)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(SystemExit(f"the connection was lost: {error}"))
        self.seen.closed = self.seen.closed or f"lost: {error}"


def take_frame(data: bytes) -> tuple[int, bytes, bytes] | None:
    """The first whole frame: its opcode, its payload, and what follows it."""
    if len(data) < 2:
        return None
    length, start = data[1], 2
    if length >= 126:
        start = 4 if length == 126 else 10
        length = int.from_bytes(data[2:start])
    if len(data) < max(start, start + length):
        return None
    return data[0] & 15, data[start : start + length], data[start + length :]


def pong(payload: bytes) -> bytes:
    """The answer to a ping, masked with zeros as a client's frame may be."""
    return bytes((0x8A, 0x80 | len(payload))) + bytes(4) + payload


async def connect(server: Served, key: str, after: int, *, is_slow: bool) -> Client:
    """A client that follows the session from ``after`` on."""
    request = (
        f"GET /ws/v1/sessions/{server.session_id}?after={after} HTTP/1.1\r\nhost: {server.address}\r\n"
        f"authorization: Bearer {key}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        f"sec-websocket-version: 13\r\nsec-websocket-key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n"
    ).encode()
    host, _, port = server.address.partition(":")
    connection = socket.socket()
    if is_slow:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, (host, int(port)))
    _, client = await loop.create_connection(lambda: Client(request), sock=connection)
    await asyncio.wait_for(client.is_open, 60)
    return client


async def connect_all(
    server: Served, after: int, options: argparse.Namespace
) -> tuple[list[Client], list[Client]]:
    """The quick ones and the slow ones."""
    places = asyncio.Semaphore(AT_ONCE)
    keys = [
        post(server, "keys", {"name": "watchers", "scopes": ["sessions:read"]})["secret"]
        for _ in range(0, options.clients, OF_A_KEY)
    ]

    async def one(number: int) -> Client:
        key = keys[number // OF_A_KEY]
        async with places:
            return await connect(server, key, after, is_slow=number < options.slow)

    clients = await asyncio.gather(*(one(number) for number in range(options.clients)))
    return clients[options.slow :], clients[: options.slow]


async def dawdle(client: Client, pause_s: float) -> None:
    """Read for a moment, then not at all for ``pause_s``."""
    while True:
        client.transport.pause_reading()
        await asyncio.sleep(pause_s)
        client.transport.resume_reading()
        await asyncio.sleep(0.2)


async def report(server: Served, options: argparse.Namespace) -> int:
    """The runtime's side: one entry after another at the rate that was asked for; how many were
    acknowledged.
    """
    filling = "x" * max(0, options.bytes - 60)
    count = int(options.rate * options.seconds)
    began = time.monotonic()
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {server.lease}"}) as http:
        for number in range(count):
            await asyncio.sleep(max(0, began + number / options.rate - time.monotonic()))
            data = {"n": number, "sent_ns": time.monotonic_ns(), "line": filling}
            body = {"entries": [{"key": f"b{number}", "kind": "log", "data": data}]}
            async with http.post(f"http://{server.address}/v1/runtime/report", json=body) as answer:
                if answer.status != 204:
                    raise SystemExit(f"a report was refused: {answer.status} {await answer.text()}")
    return count


def recorded(server: Served, after: int) -> int:
    """How many entries the record holds after ``after``."""
    count = 0
    while True:
        page = get(server, f"events?after={after}&limit=500")
        if not page["items"]:
            return count
        count += len(page["items"])
        after = page["next_cursor"]


def get(server: Served, path: str) -> dict:
    return _answer(server, f"sessions/{server.session_id}/{path}", None)


def post(server: Served, path: str, body: dict) -> dict:
    return _answer(server, path, json.dumps(body).encode())


def _answer(server: Served, path: str, body: bytes | None) -> dict:
    headers = {"Authorization": f"Bearer {server.api_key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{server.address}/v1/{path}", body, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


async def run(server: Served, options: argparse.Namespace) -> None:
    after = get(server, "events?limit=500")["next_cursor"]
    began = time.monotonic()
    quick, slow = await connect_all(server, after, options)
    print(
        f"{options.clients} clients connected in {time.monotonic() - began:.1f} s, {options.slow} of them slow"
    )
    dawdlers = [asyncio.create_task(dawdle(client, random.uniform(3, 6))) for client in slow]
    cpu_before_s, began = cpu_s(server.process.pid), time.monotonic()
    count = await report(server, options)
    used_s, took_s = cpu_s(server.process.pid) - cpu_before_s, time.monotonic() - began
    for dawdler in dawdlers:
        dawdler.cancel()
    for client in slow:
        client.transport.resume_reading()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(
        len(client.seen.numbers) < count for client in quick + slow
    ):
        await asyncio.sleep(0.1)
    print(
        f"{count} entries of {options.bytes} bytes, {count / took_s:.1f} a second; {recorded(server, after)} recorded"
    )
    show("quick", quick, count)
    if slow:
        show("slow", slow, count)
    delivered = count * options.clients
    print(
        f"the server used {used_s / took_s:.2f} cores, {1e6 * used_s / delivered:.0f} us an entry and client"
    )


def show(name: str, clients: list[Client], count: int) -> None:
    """One line: how old entries were on arrival, how they were paged, and whether any was lost."""
    ages_s = [age_s for client in clients for age_s in client.seen.ages_s]
    whole = sum(client.seen.numbers == list(range(count)) for client in clients)
    pages = sum(client.seen.pages for client in clients)
    p50, p99 = (1000 * quantile(ages_s, share) for share in (0.5, 0.99))
    for why, times in Counter(client.seen.closed for client in clients).items():
        if why is not None:
            print(f"{times} connections were closed: {why}")
    print(
        f"{name:6} {len(clients):5} clients: p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {1000 * max(ages_s):.0f} ms; "
        f"{len(ages_s) / pages:.1f} entries a page; {whole} of {len(clients)} got every entry once, in order"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, help="another checkout to measure in turns with it")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--slow", type=int, default=20, help="how many of them are slow")
    parser.add_argument("--rate", type=float, default=10.0, help="entries a second")
    parser.add_argument("--bytes", type=int, default=250, help="size of an entry's data")
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    gc.disable()
    print(f"{len(os.sched_getaffinity(0))} cores, load before {os.getloadavg()[0]:.1f}")
    for root in (options.before, ROOT, options.before, ROOT) if options.before else (ROOT,):
        print(f"\n{'before' if root == options.before else 'now'}")
        with served("127.0.0.1:9", root=root.resolve()) as server:
            uvloop.run(run(server, options))


if __name__ == "__main__":
    main()
