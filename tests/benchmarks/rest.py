"""What a request to the REST API costs: requests per second and CPU time of the web server, per
kind of request.

    .venv/bin/python tests/benchmarks/rest.py                      this checkout
    .venv/bin/python tests/benchmarks/rest.py --before FOLDER      and another one (a git worktree), interleaved

Conditions: everything on one machine. CLIENTS clients with one kept connection each send the same
request again and again; the session's gateway is a process that returns a fixed body. The checkouts
are measured in turn, in ROUNDS rounds, so that other load falls on all of them. CPU time is that of
the web server's process alone: it says more than requests per second on a machine that has other
work.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import uvloop
from serving import ROOT, Served, cpu_s, served
from sse_upstream import put

GATEWAY_BODY = json.dumps(
    {"episode_id": "ep_1", "base_url": "http://127.0.0.1/openai/v1", "api_key": "k" * 120}
)
STREAMED, PIECES, PIECE_S = b'"stream": true', 100, 0.03  # an answer of 100 tokens in 3 s
BEGIN, END = {"task": "t"}, {"output": {"reward": 1.0, "metrics": {"turns": 3}}}
REQUESTS = {
    "GET /v1/sessions": ("GET", "/v1/sessions", None),
    "POST .../episodes": ("POST", "/v1/sessions/{session_id}/episodes", BEGIN),
    "POST .../end": ("POST", "/v1/sessions/{session_id}/episodes/ep_1/end", END),
}


@dataclass
class Cost:
    """What was measured of one kind of request in one checkout: one entry a round."""

    per_second: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)


class Gateway(asyncio.Protocol):
    """Returns the same body for every request, at next to no cost, or the same pieces where a
    stream is asked for.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.received = transport, b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, separator, body = self.received.partition(b"\r\n\r\n")
        length = next(
            (
                int(line[15:])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            ),
            0,
        )
        if separator and len(body) >= length:
            self.received = b""
            if STREAMED in body:
                self._stream_on(PIECES)
                return
            answer = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(GATEWAY_BODY)}\r\n\r\n"
            self.transport.write((answer + GATEWAY_BODY).encode())

    def _stream_on(self, left: int) -> None:
        """The next piece, and each PIECE_S another."""
        if put(self.transport, left, PIECES):
            asyncio.get_running_loop().call_later(PIECE_S, self._stream_on, left - 1)


async def gateway_serve() -> None:
    """Print the address, then serve until ended."""
    server = await asyncio.get_running_loop().create_server(Gateway, "127.0.0.1", 0, backlog=1024)
    print("{}:{}".format(*server.sockets[0].getsockname()[:2]), flush=True)
    await server.serve_forever()


@contextmanager
def gateway() -> Iterator[str]:
    """The address of a gateway in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--gateway"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(10)


async def load(server: Served, kind: str, *, clients: int, seconds: float) -> int:
    """The number of requests that were completed. Raises SystemExit when one fails."""
    method, path, body = REQUESTS[kind]
    url = f"http://{server.address}{path.format(session_id=server.session_id)}"
    headers = {"Authorization": f"Bearer {server.api_key}"}
    deadline = asyncio.get_running_loop().time() + seconds
    async with aiohttp.ClientSession(headers=headers) as session:

        async def client() -> int:
            done = 0
            while asyncio.get_running_loop().time() < deadline:
                async with session.request(method, url, json=body) as answer:
                    text = await answer.text()
                    if answer.status >= 300:
                        raise SystemExit(f"{kind}: {answer.status} {text}")
                done += 1
            return done

        return sum(await asyncio.gather(*(client() for _ in range(clients))))


def measure(server: Served, kind: str, cost: Cost, options: argparse.Namespace) -> None:
    """One round."""
    before_s = cpu_s(server.process.pid)
    done = uvloop.run(load(server, kind, clients=options.clients, seconds=options.seconds))
    cost.per_second.append(done / options.seconds)
    cost.cpu_ms.append(1000 * (cpu_s(server.process.pid) - before_s) / done)


def report(costs: dict[str, dict[str, Cost]]) -> None:
    """The table: medians over the rounds."""
    print(f"{'':20} {'server':8} {'requests/s':>10} {'CPU ms/request':>15}")
    for kind in REQUESTS:
        for name, of_kind in costs.items():
            cost = of_kind[kind]
            rate, cpu = statistics.median(cost.per_second), statistics.median(cost.cpu_ms)
            print(f"{kind:20} {name:8} {rate:10.0f} {cpu:15.2f}")
        if len(costs) == 2:
            first, second = costs
            before, now = costs[first][kind], costs[second][kind]
            ratios = [ours / theirs for ours, theirs in zip(now.cpu_ms, before.cpu_ms, strict=True)]
            rates = [
                ours / theirs
                for ours, theirs in zip(now.per_second, before.per_second, strict=True)
            ]
            print(
                f"{'':20} {second} / {first}: {statistics.median(rates):.2f} {statistics.median(ratios):15.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, help="another checkout to measure beside this one")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="length of a round, for each kind of request"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gateway", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.gateway:
        uvloop.run(gateway_serve())
        return
    print(
        f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}; {options.clients} clients"
    )
    sides = {"before": options.before.resolve(), "now": ROOT} if options.before else {"now": ROOT}
    costs = {name: {kind: Cost() for kind in REQUESTS} for name in sides}
    with ExitStack() as stack:
        address = stack.enter_context(gateway())
        limits = {"TINKERSCRIPT_RATE_LIMIT": "1000000"}
        servers = {
            name: stack.enter_context(served(address, root=root, settings=limits))
            for name, root in sides.items()
        }
        for server in servers.values():  # the first requests fill caches
            for kind in REQUESTS:
                uvloop.run(load(server, kind, clients=options.clients, seconds=1.0))
        for _ in range(options.rounds):
            for kind in REQUESTS:
                for name, server in servers.items():
                    measure(server, kind, costs[name][kind], options)
    report(costs)


if __name__ == "__main__":
    main()
