"""What the relay costs: streams from a scripted upstream, reached directly, through the product,
and through LiteLLM.

    .venv/bin/python tests/environments/build.py litellm   once: LiteLLM's proxy, in an environment of its own
    .venv/bin/python tests/benchmarks/relay.py    about eight minutes; --help for the load

Conditions: everything on one machine, generator and upstream included (one process each). Each
client has one stream at a time and asks again after a pause of random length; an answer is TOKENS
pieces, one each TOKEN_MS. The three ways are measured in turn, in ROUNDS rounds, so that whatever
else the machine does falls on all of them. "added" is the difference from the direct way's same
quantile. A machine that is saturated shows its queue instead of the relay: LiteLLM is therefore
measured with few streams too.

On a machine that has other work too, put `chrt -r 5` before the command (as root): what is measured
goes first.
"""

import argparse
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import uvloop
from serving import ROOT, cpu_s, free_port, quantile, running, served
from sse_load import Samples, load

LITELLM = ROOT / ".venv-litellm" / "bin" / "litellm"
MASTER_KEY = "sk-benchmark-7c1f20d94e8b"
LITELLM_CONFIG = """
model_list: [{{model_name: m, litellm_params: {{model: openai/m, api_base: "http://{address}/v1", api_key: none}}}}]
general_settings: {{master_key: {key}}}
litellm_settings: {{telemetry: false}}
"""


@dataclass
class Way:
    """One way to the upstream, and what it was seen to do."""

    name: str
    address: str
    path: str
    key: str
    pid: int | None = None
    samples: Samples = field(default_factory=Samples)
    cpu_s: float = 0.0

    def run(self, options: argparse.Namespace, streams: int) -> None:
        """One round."""
        before_s = cpu_s(self.pid) if self.pid else 0.0
        work = load(
            self.address,
            self.path,
            self.key,
            streams=streams,
            pieces=options.tokens,
            pause_s=options.pause_ms / 1000,
            seconds=options.seconds,
            warm_s=options.warm_s,
        )
        self.samples.add(uvloop.run(work))
        self.cpu_s += (cpu_s(self.pid) if self.pid else 0.0) - before_s


@contextmanager
def upstream(options: argparse.Namespace) -> Iterator[str]:
    """The scripted upstream's address."""
    script = Path(__file__).with_name("sse_upstream.py")
    command = [sys.executable, str(script), str(options.tokens), str(options.token_ms)]
    process = subprocess.Popen(
        command + ["in-step"] * options.in_step, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def litellm(address: str) -> Iterator[Way]:
    """LiteLLM's proxy in front of the upstream."""
    port = free_port()
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(LITELLM_CONFIG.format(address=address, key=MASTER_KEY))
        config.flush()
        command = [
            str(LITELLM),
            "--config",
            config.name,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
        health = f"http://127.0.0.1:{port}/health/liveliness"
        with running(command, health, env=environment, start_s=180) as process:
            yield Way(
                "LiteLLM", f"127.0.0.1:{port}", "/v1/chat/completions", MASTER_KEY, process.pid
            )


def measure(options: argparse.Namespace, streams: int) -> list[Way]:
    """Every way in turn, in each round."""
    with ExitStack() as stack:
        address = stack.enter_context(upstream(options))
        ways = [Way("direct", address, "/v1/chat/completions", "none")]
        for name, root in {"relay": ROOT, "before": options.before}.items():
            if root is not None:
                product = stack.enter_context(served(address, root=root.resolve()))
                path = "/openai/v1/chat/completions"
                ways.append(
                    Way(name, product.address, path, product.episode_key, product.process.pid)
                )
        if LITELLM.exists() and not options.without_litellm:
            ways.append(stack.enter_context(litellm(address)))
        for _ in range(options.rounds):
            for way in ways:
                way.run(options, streams)
        return ways


def report(streams: int, ways: list[Way]) -> None:
    """The table: times in milliseconds."""
    print(f"\n{streams} streams at once")
    print(
        f"{'':8} | {'first piece':^29} | {'last byte':^29} | {'each piece on its way':^29} | {'CPU ms':>8} |"
    )
    quantiles = f"{'p50':>7}{'p99':>7}{'added':>15}"
    print(f"{'':8} | {quantiles} | {quantiles} | {quantiles} | {'/request':>8} | {'req/s':>6}")
    for way in ways:
        cells = [_cell(way, ways[0], name) for name in ("first_s", "last_s", "piece_s")]
        cpu = f"{1000 * way.cpu_s / way.samples.requests:8.2f}" if way.pid else f"{'':8}"
        rate = f"{way.samples.requests / way.samples.seconds:6.1f}"
        print(f"{way.name:8} | {' | '.join(cells)} | {cpu} | {rate}")
        if way.samples.failures:
            print(
                f"{way.name}: {len(way.samples.failures)} answers failed, the first: {way.samples.failures[0]}"
            )
    relay, *others = ways[1:]
    for way in others:
        ratio = (way.cpu_s / way.samples.requests) / (relay.cpu_s / relay.samples.requests)
        print(f"{way.name} takes {ratio:.2f} times the relay's CPU for a request")


def _cell(way: Way, direct: Way, name: str) -> str:
    at = {share: 1000 * quantile(getattr(way.samples, name), share) for share in (0.5, 0.99)}
    text = f"{at[0.5]:7.1f}{at[0.99]:7.1f}"
    if way is direct:
        return f"{text}{'':15}"
    base = {share: 1000 * quantile(getattr(direct.samples, name), share) for share in at}
    return text + f"{at[0.5] - base[0.5]:+.2f}, {at[0.99] - base[0.99]:+.2f}".rjust(15)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, help="another checkout to measure beside this one")
    parser.add_argument("--streams", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--token-ms", type=float, default=40.0)
    parser.add_argument(
        "--pause-ms", type=float, default=200.0, help="mean pause of a client between two answers"
    )
    parser.add_argument(
        "--in-step", action="store_true", help="all streams get their pieces at the same ticks"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a round")
    parser.add_argument(
        "--warm-s", type=float, default=4.0, help="start of a round that is not counted"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-litellm", action="store_true")
    options = parser.parse_args()
    gc.disable()  # the generator's own pauses are not the server's
    if not LITELLM.exists() and not options.without_litellm:
        print(
            "LiteLLM is not installed (tests/environments/build.py litellm): its rows are left out"
        )
    memory_gb = psutil.virtual_memory().total / 1e9
    together = "all in step" if options.in_step else "each in its own time"
    cores = len(os.sched_getaffinity(0))
    print(
        f"{cores} cores, {memory_gb:.0f} GB, load before {os.getloadavg()[0]:.1f}; {options.tokens} pieces, "
        f"one each {options.token_ms:.0f} ms, {together}; pauses of {options.pause_ms:.0f} ms"
    )
    for streams in options.streams:
        report(streams, measure(options, streams))


if __name__ == "__main__":
    main()
