"""What a long tail costs: how long engine and trainer are idle where one episode of 16 is ten times
as long.

    .venv/bin/python tests/benchmarks/long_tail.py [--steps 16] [--staleness 1 8]

The runtime is the product's own, as in overlap.py; generation and the step are scripted. An episode
is one call of SHORT_S, every sixteenth of LONG_S; 16 agents do nothing else, so that an engine that
is never idle has 16 calls at all times. They are a process of their own, as agents are on a machine
of their own: what their HTTP client computes is no part of the runtime's time. A step takes STEP_S,
about as long as 16 agents take for a batch. "drained": a hand-over waits for the calls in flight
and holds back new ones, as it did before calls were kept; "kept": they go on. Both in one run, in
turns.

idle, trainer   the part of the time in which no step runs
idle, engine    the part of 16 agents' time in which no call of theirs is sampled
stale           the part of the ended episodes that became too old to be trained: at ``max_staleness`` 1 an answer that
                takes as long as several steps is among them, whatever the hand-over does
"""

import argparse
import asyncio
import itertools
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import overlap  # beside this file, and it puts the repository's folders on the path

from gpu_runtime.journal.journal import Journal
from gpu_runtime.model_interfaces import AdamParams
from support.fakes import FakeEngine
from support.light_tokenizer import LightTokenizer
from support.runtime_harness import tiny_model

SHORT_S, LONG_S, STEP_S = 0.5, 5.0, 0.8
SHORT_TOKENS, LONG_TOKENS = 16, 160
AGENTS = overlap.AGENTS
WARM_UP_STEPS = 2


class TailEngine(overlap.TimedEngine):
    """``busy_s`` is the time of all calls together. Without ``keeps_calls`` weights wait for the
    calls in flight.
    """

    def __init__(self, tokenizer, *, keeps_calls: bool) -> None:
        super().__init__(tokenizer)
        self.keeps_calls, self.busy_s = keeps_calls, 0.0

    async def generate(self, request_id, prompt_ids, options):
        await self._open.wait()
        self._running += 1
        self._idle.clear()
        began = time.monotonic()
        try:
            await asyncio.sleep(LONG_S if options.max_tokens == LONG_TOKENS else SHORT_S)
            async for delta in FakeEngine.generate(self, request_id, prompt_ids, options):
                yield delta
        finally:
            self.busy_s += time.monotonic() - began
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def load_weights(self, folder: Path, version: int) -> None:
        if self.keeps_calls:
            await FakeEngine.load_weights(self, folder, version)
        else:
            await super().load_weights(folder, version)


class TailTrainer(overlap.TimedTrainer):
    """A step takes STEP_S; ``busy_s`` is the time of all steps."""

    def __init__(self) -> None:
        super().__init__()
        self.busy_s = 0.0

    async def optim_step(self, params: AdamParams) -> dict[str, float]:
        began = time.monotonic()
        await asyncio.sleep(STEP_S - overlap.STEP_S)
        metrics = await super().optim_step(params)
        self.busy_s += time.monotonic() - began
        return metrics


@dataclass
class TailLoop(overlap.Loop):
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def agent(self) -> None:
        while True:
            task, number = next(self.order), next(self.numbers)
            begun = await self._post("/episodes", {"task": task})
            tokens = LONG_TOKENS if number % AGENTS == AGENTS - 1 else SHORT_TOKENS
            chat = {
                "model": "tiny",
                "messages": [{"role": "user", "content": task}],
                "max_tokens": tokens,
            }
            await self._post("/v1/chat/completions", chat, begun["api_key"])
            await self._post(
                f"/episodes/{begun['episode_id']}/end", {"output": {"reward": self.rng.random()}}
            )


@dataclass
class Result:
    step_s: float
    trainer_idle: float
    engine_idle: float
    stale: float


async def measure(
    max_staleness: int, steps: int, model: Path, volume: Path, *, keeps_calls: bool
) -> Result:
    """One session of ``steps`` steps; figures from the end of the second to the end of the last."""
    trainer, engine = TailTrainer(), TailEngine(LightTokenizer(model), keeps_calls=keeps_calls)
    async with overlap.runtime_running(engine, trainer, model, volume, max_staleness) as (
        runtime,
        address,
    ):
        agents = multiprocessing.get_context("spawn").Process(
            target=agents_play, args=(address,), daemon=True
        )
        agents.start()
        try:
            began = await _steps_done(trainer, WARM_UP_STEPS, runtime, agents)
            before = engine.busy_s, trainer.busy_s
            ended = await _steps_done(trainer, steps, runtime, agents)
            busy = engine.busy_s - before[0], trainer.busy_s - before[1]
        finally:
            agents.kill()
            agents.join()
    journal = Journal(volume / "journal.sqlite3")
    counts = journal.episodes.accounting()
    journal.close()
    elapsed_s = ended - began
    return Result(
        step_s=elapsed_s / (steps - WARM_UP_STEPS),
        trainer_idle=1 - busy[1] / elapsed_s,
        engine_idle=1 - busy[0] / (AGENTS * elapsed_s),
        stale=counts.stale / max(1, counts.stale + counts.trained),
    )


async def _steps_done(
    trainer: TailTrainer,
    steps: int,
    runtime: asyncio.Task,
    agents: multiprocessing.process.BaseProcess,
) -> float:
    """When ``steps`` are done: the time. Raises what ended the runtime, and RuntimeError when the
    agents ended.
    """
    while len(trainer.ends) < steps:
        await asyncio.sleep(0.01)
        if runtime.done():
            runtime.result()
        if agents.exitcode is not None:
            raise RuntimeError(
                f"the agents ended with status {agents.exitcode}: what they printed says why"
            )
    return time.monotonic()


def agents_play(address: str) -> None:
    """The process of all agents, until it is killed."""

    async def play() -> None:
        async with overlap.httpx.AsyncClient(
            timeout=60, limits=overlap.httpx.Limits(keepalive_expiry=2)
        ) as http:
            loop = TailLoop(address, http)
            await asyncio.gather(*(loop.agent() for _ in range(AGENTS)))

    asyncio.run(play())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--staleness", type=int, nargs="+", default=[1, 8])
    options = parser.parse_args()
    print(
        f"{AGENTS} agents, batches of {AGENTS}, calls of {SHORT_S} s and each sixteenth of {LONG_S} s, step {STEP_S} s"
    )
    print("| max_staleness | hand-over | seconds a step | trainer idle | engine idle | stale |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_model(Path(folder) / "model")
        for staleness, keeps_calls in itertools.product(options.staleness, (False, True)):
            volume = Path(folder) / f"volume-{staleness}-{keeps_calls}"
            volume.mkdir()
            it = asyncio.run(
                measure(staleness, options.steps, model, volume, keeps_calls=keeps_calls)
            )
            how = "kept" if keeps_calls else "drained"
            shares = " | ".join(
                f"{share:.0%}" for share in (it.trainer_idle, it.engine_idle, it.stale)
            )
            print(f"| {staleness} | {how} | {it.step_s:.2f} | {shares} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
