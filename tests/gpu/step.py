"""The product's whole asynchronous loop on this machine's devices: generation, training and
hand-overs at once.

    python tests/gpu/step.py [--json FILE] [--smoke] [--model FOLDER] [--steps 8]

The runtime is the product's own (gpu_runtime/run.py: gateway, journal, batches, learner), with its
real engine and trainer; only the control plane is the tests'. Agents play episodes of one call over
HTTP as fast as they get them. The load is workload.py's. From the end of the last warm-up step to
the end of the last step:

trainer idle      the part of the time in which no forward, backward or optimizer pass runs
engine idle       the part of the time in which no call is in flight, or the engine sleeps
hand-over         from the trainer's publish to the engine's serving it, of a step (median); the bytes of the weights
MFU of steps      model FLOPs of forward and backward passes by the time of those and of the optimizer, by the devices
                  that train and their peak; of all time: by the whole time
trainer, engine   memory at most: what torch had allocated on a device; on a CPU the whole process
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

import httpx  # noqa: E402
from gpu.part import PartFailed, Table, part_failed, part_parser  # noqa: E402
from gpu.workload import (  # noqa: E402
    COLUMNS,
    LEARNING_RATE,
    Workload,
    cells_make,
    workload_options,
    workload_read,
)  # fmt: skip

from gpu_runtime.kinds import episodes as episodes_module  # noqa: E402
from gpu_runtime.loading.engine_and_trainer import open_engine_and_trainer  # noqa: E402
from gpu_runtime.loop.sample import Sample  # noqa: E402
from gpu_runtime.start import start  # noqa: E402
from support.any_reward import any_reward  # noqa: E402
from support.fake_control_plane import FakeControlPlane  # noqa: E402
from support.gateway_post import gateway_post  # noqa: E402
from support.measured_engine import engine_memory  # noqa: E402
from support.measured_ranks import memory_of, ranks_measured  # noqa: E402
from support.model_flops import peak_tflops, shape_of, step_flops  # noqa: E402
from support.runtime_harness import plane_assign, runtime_config  # noqa: E402

LOAD_S, GIB = 1800, 1 << 30
ROW_TOKENS = 16_384  # of a row of the trainer


@dataclass
class Meter:
    """What engine and trainer do, by the clock. ``ends`` are the times at which steps were
    served.
    """

    generated: int = 0
    calls: int = 0
    asleep: bool = False
    seen_at: float = 0.0
    engine_s: float = 0.0  # awake, with a call in flight
    trainer_s: float = 0.0
    trained: int = 0
    handovers: list[float] = field(default_factory=list)
    batches: list[list[Sample]] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
    look: Callable[[], Any] = lambda: None  # asks both for their memory, while they run

    def attach(self, engine: Any, trainer: Any) -> None:
        """Measure their methods from now on."""
        passed = {
            name: getattr(trainer, name) for name in ("forward_backward", "optim_step", "publish")
        }
        generate, load, sleep, wake = (
            engine.generate,
            engine.load_weights,
            engine.sleep,
            engine.wake,
        )

        async def generated(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
            self.tick()
            self.calls += 1
            stream = generate(*arguments, **options)
            try:
                async for delta in stream:
                    self.generated += len(delta.token_ids_T)
                    yield delta
            finally:
                await stream.aclose()
                self.tick()
                self.calls -= 1

        async def timed(name: str, *arguments: Any) -> Any:
            began = time.monotonic()
            found = await passed[name](*arguments)
            self.trainer_s += time.monotonic() - began
            if name == "forward_backward":
                self.batches.append(list(arguments[0]))
                self.trained += int(found["tokens_trained"])
            return found

        async def published(folder: Path) -> None:
            self.handovers.append(time.monotonic())
            await passed["publish"](folder)

        async def loaded(folder: Path, version: int) -> None:
            await load(folder, version)
            self.ends.append(time.monotonic())
            self.handovers[-1] = self.ends[-1] - self.handovers[-1]

        async def slept() -> None:
            self.tick()
            self.asleep = True
            await sleep()

        async def woken() -> None:
            await wake()
            self.tick()
            self.asleep = False

        engine.generate, engine.load_weights, engine.sleep, engine.wake = (
            generated,
            loaded,
            slept,
            woken,
        )
        trainer.forward_backward, trainer.optim_step = (
            partial(timed, "forward_backward"),
            partial(timed, "optim_step"),
        )
        trainer.publish = published
        self.look = partial(self._look, engine, trainer)

    def tick(self) -> None:
        """Count the time since the last tick, before what the engine does changes."""
        now = time.monotonic()
        if self.calls and not self.asleep:
            self.engine_s += now - self.seen_at
        self.seen_at = now

    async def _look(self, engine: Any, trainer: Any) -> None:
        found = await engine_memory(engine)
        self.memory = {f"engine {name}": size for name, size in found.items()} | {
            "trainer": await memory_of(trainer)
        }

    def now(self) -> dict[str, float]:
        """Counters at this moment."""
        self.tick()
        return {
            "at": time.monotonic(), "generated": self.generated, "trained": self.trained, "trainer": self.trainer_s,
            "engine": self.engine_s, "batches": len(self.batches), "handovers": len(self.handovers),
        }  # fmt: skip


@asynccontextmanager
async def runtime_open(
    load: Workload, model: Path, volume: Path, meter: Meter
) -> AsyncIterator[tuple[Any, str]]:
    """The runtime of one session: its task, and its gateway's address. It ends with the block."""

    @asynccontextmanager
    async def parts(*arguments: Any) -> AsyncIterator[Any]:
        with ranks_measured():
            opened = open_engine_and_trainer(*arguments)
            async with opened as (engine, trainer, comparison):
                await comparison.passed()
                meter.attach(engine, trainer)
                yield engine, trainer, comparison

    episodes_module.open_engine_and_trainer = parts
    options: dict[str, Any] = {"trainer_ranks": load.ranks, "micro_batch_tokens": ROW_TOKENS}
    with FakeControlPlane(part_size_bytes=1 << 24) as plane:
        plane_assign(
            plane, model, grpo_n=load.group, tasks_per_batch=load.tasks, max_staleness=load.staleness,
            max_context_length=load.context, max_tokens=load.completion, learning_rate=LEARNING_RATE,
            checkpoint_every_steps=100_000, **options,
        )  # fmt: skip
        runtime = asyncio.create_task(
            start(replace(runtime_config(plane, volume), gpus=load.devices))
        )
        address, deadline = None, time.monotonic() + LOAD_S
        while not address:
            if runtime.done() or time.monotonic() > deadline:
                reported = [*plane.bodies("/v1/runtime/report"), *plane.bodies("/v1/runtime/fail")]
                raise PartFailed(f"the runtime did not come to serve: {reported}")
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


async def agent(
    http: httpx.AsyncClient, address: str, prompts: list[str], load: Workload, numbers: Any
) -> None:
    """Play one episode after the other: the next of a group, or the first of the next task's."""
    post = partial(gateway_post, http, address)
    while True:
        task = next(numbers) // load.group
        begun = await post("/episodes", {"task": f"task {task}"})
        messages = [{"role": "user", "content": prompts[task % len(prompts)]}]
        chat = {"model": "tiny", "messages": messages, "max_tokens": load.completion}
        answer = await post("/v1/chat/completions", chat, begun["api_key"])
        earned = any_reward(answer["choices"][0]["message"]["content"] or "")
        await post(f"/episodes/{begun['episode_id']}/end", {"output": {"reward": earned}})


async def steps_done(meter: Meter, number: int, tasks: list[asyncio.Task[Any]]) -> dict[str, float]:
    """The counters once ``number`` steps were served. Raises what ended one of ``tasks``."""
    while len(meter.ends) < number:
        await asyncio.sleep(0.005)
        for task in tasks:
            if task.done():
                task.result()
                raise PartFailed(f"{task.get_name()} ended before the last step")
    return meter.now()


async def measure(load: Workload, scratch: Path, device: str, peak: float | None) -> list[str]:
    """The line of the table."""
    model, prompts = load.prepare(scratch)
    meter, numbers = Meter(), count()
    volume = scratch / "volume"
    volume.mkdir()
    limits = httpx.Limits(max_connections=4 * load.under_way, keepalive_expiry=2)
    async with (
        runtime_open(load, model, volume, meter) as (runtime, address),
        httpx.AsyncClient(timeout=600, limits=limits) as http,
    ):
        playing = partial(agent, http, address, prompts, load, numbers)
        tasks = [
            asyncio.create_task(playing(), name=f"agent {each}") for each in range(load.under_way)
        ]
        began = await steps_done(meter, load.warm_up, [runtime, *tasks])
        ended = await steps_done(meter, load.warm_up + load.steps, [runtime, *tasks])
        await meter.look()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return line(load, meter, began, ended, peak, weights_bytes(model, load))


def line(
    load: Workload,
    meter: Meter,
    began: dict[str, float],
    ended: dict[str, float],
    peak: float | None,
    size: int,
) -> list[str]:
    spent = {name: ended[name] - began[name] for name in ended}
    shape, whole_s = shape_of(Path(load.model)), spent["at"]
    flops = sum(
        step_flops(batch, ROW_TOKENS, shape)
        for batch in meter.batches[int(began["batches"]) :][: load.steps]
    )
    most = (peak or 0.0) * 1e12 * load.ranks
    memory = {name: f"{found / GIB:.2f}" for name, found in meter.memory.items()}
    named = {
        "": "TinkerScript", "s a step": f"{whole_s / load.steps:.3f}",
        "generated tokens / s": f"{spent['generated'] / whole_s:.0f}",
        "trained tokens / s": f"{spent['trained'] / whole_s:.0f}",
        "trainer idle": f"{1 - spent['trainer'] / whole_s:.0%}", "engine idle": f"{1 - spent['engine'] / whole_s:.0%}",
        "hand-over, s": f"{statistics.median(meter.handovers[load.warm_up :][: load.steps]):.3f}",
        "hand-over, GB": f"{size / 1e9:.3f}", "trainer, GiB": memory["trainer"],
        "engine, GiB": f"{memory['engine peak']} ({memory['engine weights']} weights, {memory['engine cache']} cache)",
    }  # fmt: skip
    if most:
        named |= {
            "MFU of steps": f"{flops / spent['trainer'] / most:.1%}",
            "MFU of all time": f"{flops / whole_s / most:.1%}",
        }
    return cells_make(named)


def weights_bytes(model: Path, load: Workload) -> int:
    """Of what is handed over: bfloat16 on a device, float32 on a CPU."""
    from tinkerscript.wire.training.models.quantised import weights_count

    return (weights_count(model) or 0) * (2 if load.devices else 4)


def main() -> int:
    parser = part_parser(__doc__)
    workload_options(parser)
    options = parser.parse_args()
    # the engine's worker is asked what no runtime asks it
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    import torch

    device = "" if options.smoke else torch.cuda.get_device_name()
    with tempfile.TemporaryDirectory() as folder:
        load = workload_read(options, Path(folder))
        table = Table(f"Asynchronous GRPO: {load.words(device)}", COLUMNS)
        try:
            table.rows.append(asyncio.run(measure(load, Path(folder), device, peak_tflops(device))))
        except PartFailed as failure:
            return part_failed(failure)
    if options.smoke:
        table.notes.append("Figures of a CPU mean nothing.")
    if load.devices == 1:
        table.notes.append("On one device the engine sleeps while a step runs.")
    table.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
