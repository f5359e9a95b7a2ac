"""What rollout during a step is worth: episodes trained per second at ``max_staleness`` 0, 1, 2 and
4.

    .venv/bin/python tests/benchmarks/overlap.py [--steps 40] [--rounds 1]

The runtime is the product's own (gpu_runtime/run.py with its gateway, journal, admission, batches
and learner); only generation and the step are scripted: a call takes CALL_S, a step takes STEP_S,
and a hand-over waits for the calls in flight, as the engine's does at ``max_staleness`` 0 (above it
calls go on: long_tail.py). As many agents as a batch has episodes walk through tasks, ``grpo_n``
episodes each, make three calls an episode, and between them do what agents do: mostly something
short, sometimes something long (a log-normal latency). One run per setting and round, settings
interleaved; throughput from the end of the second step to the end of the last; ratios are to
``max_staleness`` 0 of the same round, and the median of rounds is shown.

A run that drops the slow episodes trains more of the quick ones. So the table also has the time
that the trained episodes took, in seconds a second: how many agents worked for what was trained.
The last column is computed (``possible``). With fewer than 30 steps the latency of single episodes
moves a figure by a third.
"""

import argparse
import asyncio
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

import httpx  # noqa: E402

from gpu_runtime.journal.journal import Journal  # noqa: E402
from gpu_runtime.kinds import episodes as episodes_module  # noqa: E402
from gpu_runtime.loading import tokenizer as tokenizer_module  # noqa: E402
from gpu_runtime.model_interfaces import AdamParams  # noqa: E402
from gpu_runtime.start import start  # noqa: E402
from gpu_runtime.steps.comparison import Comparison  # noqa: E402
from support.fake_control_plane import FakeControlPlane  # noqa: E402
from support.fakes import FakeEngine, FakeTrainer  # noqa: E402
from support.gateway_post import gateway_post  # noqa: E402
from support.light_tokenizer import LightTokenizer  # noqa: E402
from support.runtime_harness import plane_assign, runtime_config, tiny_model  # noqa: E402

GRPO_N, TASKS_PER_BATCH, TASKS = 4, 4, 64
AGENTS = GRPO_N * TASKS_PER_BATCH
CALLS, CALL_S, STEP_S = 3, 0.05, 0.8
# of one episode's own work; mean 0.82 s, the longest of 16 about 3 s
LATENCY_MEDIAN_S, LATENCY_SIGMA = 0.5, 1.0
WARM_UP_STEPS = 2


class TimedEngine(FakeEngine):
    """Calls take CALL_S; new weights wait for the calls in flight, and later calls for the new
    weights.
    """

    def __init__(self, tokenizer) -> None:
        super().__init__(tokenizer)
        self._running, self._idle, self._open = 0, asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._open.set()

    async def generate(self, request_id, prompt_ids, options):
        await self._open.wait()
        self._running += 1
        self._idle.clear()
        try:
            await asyncio.sleep(CALL_S)
            async for delta in super().generate(request_id, prompt_ids, options):
                yield delta
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def load_weights(self, folder: Path, version: int) -> None:
        self._open.clear()
        await self._idle.wait()
        await super().load_weights(folder, version)
        self._open.set()


class TimedTrainer(FakeTrainer):
    """A step takes STEP_S; ``ends`` are the times at which steps were done."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    async def optim_step(self, params: AdamParams) -> dict[str, float]:
        await asyncio.sleep(STEP_S)
        metrics = await super().optim_step(params)
        self.ends.append(time.monotonic())
        return metrics


@dataclass
class Loop:
    """The agents of a laptop: each takes the next episode of the shared order, plays it, and
    reports a reward.
    """

    address: str
    http: httpx.AsyncClient
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    own_s: dict[str, float] = field(default_factory=dict)  # what an episode takes by itself
    order: Iterator[str] = field(
        default_factory=lambda: (
            f"task {t}" for t in itertools.cycle(range(TASKS)) for _ in range(GRPO_N)
        )
    )

    async def agent(self) -> None:
        while True:
            task = next(self.order)
            pause = self.rng.lognormvariate(0, LATENCY_SIGMA) * LATENCY_MEDIAN_S
            await self._episode(task, [pause / CALLS] * CALLS)

    async def _episode(self, task: str, pauses_s: list[float]) -> None:
        begun = await self._post("/episodes", {"task": task})
        self.own_s[begun["episode_id"]] = sum(pauses_s) + CALLS * CALL_S
        messages = [{"role": "user", "content": task}]
        for pause_s in pauses_s:
            chat = {"model": "tiny", "messages": messages, "max_tokens": 16}
            answer = await self._post("/v1/chat/completions", chat, begun["api_key"])
            messages += [answer["choices"][0]["message"], {"role": "user", "content": "go on"}]
            await asyncio.sleep(pause_s)
        await self._post(
            f"/episodes/{begun['episode_id']}/end", {"output": {"reward": self.rng.random()}}
        )

    async def _post(self, path: str, body: dict, key: str = "") -> dict:
        return await gateway_post(self.http, self.address, path, body, key)


@dataclass
class Result:
    episodes_per_s: float
    worked_s_per_s: float  # own seconds of the trained episodes, a second
    stale_share: float


@asynccontextmanager
async def runtime_running(
    engine: FakeEngine, trainer: FakeTrainer, model: Path, volume: Path, max_staleness: int
) -> AsyncIterator[tuple[asyncio.Task[None], str]]:
    """The runtime of one session with scripted parts: its task, and its gateway's address. It ends
    with the block.
    """

    @asynccontextmanager
    async def parts(*_: object) -> AsyncIterator[tuple[FakeEngine, FakeTrainer, Comparison]]:
        yield engine, trainer, Comparison()

    episodes_module.open_engine_and_trainer, tokenizer_module.tokenizer_load = parts, LightTokenizer
    settings = {
        "grpo_n": GRPO_N,
        "tasks_per_batch": TASKS_PER_BATCH,
        "max_staleness": max_staleness,
    }
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, model, **settings, checkpoint_every_steps=10_000)
        runtime = asyncio.create_task(start(runtime_config(plane, volume)))
        address = None
        while not address:
            if runtime.done():
                reported = [*plane.bodies("/v1/runtime/report"), *plane.bodies("/v1/runtime/fail")]
                raise RuntimeError(
                    f"the runtime ended before it served: {reported}"
                ) from runtime.exception()
            await asyncio.sleep(0.05)
            address = next(
                (b["address"] for b in plane.bodies("/v1/runtime/heartbeat") if b.get("address")),
                None,
            )
        try:
            yield runtime, address
        finally:
            runtime.cancel()
            await asyncio.gather(runtime, return_exceptions=True)


async def measure(max_staleness: int, steps: int, model: Path, volume: Path) -> Result:
    """One session of ``steps`` steps."""
    trainer, engine = TimedTrainer(), TimedEngine(LightTokenizer(model))
    async with (
        runtime_running(engine, trainer, model, volume, max_staleness) as (runtime, address),
        httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=4 * AGENTS)) as http,
    ):
        loop = Loop(address, http)
        agents = [asyncio.create_task(loop.agent()) for _ in range(AGENTS)]
        while len(trainer.ends) < steps:
            await asyncio.sleep(0.02)
            for task in (runtime, *agents):
                if task.done():
                    task.result()
        for task in agents:
            task.cancel()
        await asyncio.gather(*agents, return_exceptions=True)
    journal = Journal(volume / "journal.sqlite3")
    accounting = journal.episodes.accounting()
    batches = journal.batches.after(-1)[WARM_UP_STEPS:steps]
    journal.close()
    trained = [episode for batch in batches for group in batch.groups for episode in group]
    elapsed_s = trainer.ends[steps - 1] - trainer.ends[WARM_UP_STEPS - 1]
    return Result(
        len(trained) / elapsed_s,
        sum(loop.own_s[episode] for episode in trained) / elapsed_s,
        accounting.stale / max(1, accounting.stale + accounting.trained),
    )


def possible(max_staleness: int, versions: int = 20_000) -> float:
    """Episodes a second without a stale one, if a batch begins at once at each version.

    Those that begin at version v are trained by step v + 1 + s, s = ``max_staleness``. With T_v the
    time of version v and L_v the longest of its AGENTS episodes::

        T_(v+1) = max(T_v, T_(v-s) + L_(v-s)) + STEP_S

    Begins in bursts, and agents that are still busy, move it by some percent.
    """
    rng = random.Random(7)
    longest_s = [max(_episode_s(rng) for _ in range(AGENTS)) for _ in range(versions)]
    times_s = [0.0]
    for version in range(versions):
        oldest = version - max_staleness
        waited_s = times_s[oldest] + longest_s[oldest] if oldest >= 0 else 0.0
        times_s.append(max(times_s[version], waited_s) + STEP_S)
    return AGENTS * versions / times_s[-1]


def _episode_s(rng: random.Random) -> float:
    return rng.lognormvariate(0, LATENCY_SIGMA) * LATENCY_MEDIAN_S + CALLS * CALL_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--staleness", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    results: dict[int, list[Result]] = {}
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_model(Path(folder) / "model")
        for round_ in range(options.rounds):
            for staleness in (0, *options.staleness):
                volume = Path(folder) / f"volume-{round_}-{staleness}"
                volume.mkdir()
                found = asyncio.run(measure(staleness, options.steps, model, volume))
                results.setdefault(staleness, []).append(found)
    print(
        f"{AGENTS} agents, batches of {AGENTS} episodes, step {STEP_S} s, call {CALL_S} s, {CALLS} calls an episode,"
    )
    print(f"own work of an episode log-normal (median {LATENCY_MEDIAN_S} s, sigma {LATENCY_SIGMA})")
    print("| max_staleness | episodes a second | against 0 | their seconds | stale | possible |")
    print("| --- | --- | --- | --- | --- | --- |")
    for staleness, found in results.items():
        rate = statistics.median(result.episodes_per_s for result in found)
        pairs = zip(found, results[0], strict=True)
        ratio = statistics.median(
            result.episodes_per_s / base.episodes_per_s for result, base in pairs
        )
        worked = statistics.median(result.worked_s_per_s for result in found)
        stale = statistics.median(result.stale_share for result in found)
        print(
            f"| {staleness} | {rate:.1f} | {ratio:.2f} | {worked:.1f} | {stale:.0%} "
            f"| {possible(staleness):.1f} |"
        )


if __name__ == "__main__":
    main()
