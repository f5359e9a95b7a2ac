"""How long the engine's weights take to become the trainer's, as a multiple of copying the same
bytes.

    .venv/bin/python tests/benchmarks/handover.py [--model FOLDER] [--rounds 9]

The real trainer (DeepSpeed, one rank) and the real engine (vLLM), each in its own process, as a
session runs them; nothing is being generated. A hand-over is ``publish`` and ``load_weights``, from
call to answer. The first one moves the trainer's weights to shared memory and is shown apart; the
others repeat it. Interleaved with them, the same tensors are copied in this process, with as many
threads: ``clone`` into fresh memory, ``copy_`` into memory written before.
"""

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]
MODEL = ROOT / ".data" / "models" / "SmolLM2-135M-Instruct"


async def measure(model: str, rounds: int) -> None:
    import torch

    from support.engine_loop import loop_open
    from support.published_weights import published_weights
    from tinkerscript.processes import machine_share
    from tinkerscript.wire.config import SessionConfig

    torch.set_num_threads(machine_share.cpus())
    config = SessionConfig(max_context_length=256, max_tokens=8)
    times: dict[str, list[float]] = {
        name: [] for name in ("publish", "load_weights", "clone", "copy_")
    }
    async with loop_open(model, config, "cpu") as loop:
        for round_ in range(rounds + 1):
            began = time.perf_counter()
            await loop.trainer.publish(loop.handover)
            published = time.perf_counter()
            await loop.engine.load_weights(loop.handover, round_)
            times["load_weights"].append(time.perf_counter() - published)
            times["publish"].append(published - began)
            if round_ == 0:  # copies: the benchmark's own tensors share no memory
                source = published_weights(loop.handover)
                target = {name: tensor.clone() for name, tensor in source.items()}
            began = time.perf_counter()
            fresh = [tensor.clone() for tensor in source.values()]
            times["clone"].append(time.perf_counter() - began)
            del fresh
            began = time.perf_counter()
            for name, tensor in source.items():
                target[name].copy_(tensor)
            times["copy_"].append(time.perf_counter() - began)
    _report(times, sum(tensor.nbytes for tensor in source.values()))


def _report(times: dict[str, list[float]], size_bytes: int) -> None:
    first = times["publish"][0] + times["load_weights"][0]
    middle = {name: statistics.median(values[1:]) for name, values in times.items()}
    whole = [a + b for a, b in zip(times["publish"][1:], times["load_weights"][1:], strict=True)]
    print(f"{size_bytes / 1e6:.0f} MB; the first hand-over took {first:.3f} s")
    print("| | median s | hand-over / this, median |")
    print("| --- | --- | --- |")
    print(f"| hand-over | {statistics.median(whole):.3f} | |")
    for name in ("publish", "load_weights"):
        print(f"| of it {name} | {middle[name]:.3f} | |")
    for name, meaning in (("clone", "copy into fresh memory"), ("copy_", "copy into used memory")):
        ratio = statistics.median(a / b for a, b in zip(whole, times[name][1:], strict=True))
        print(f"| {meaning} | {middle[name]:.3f} | {ratio:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default=str(MODEL))
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    asyncio.run(measure(options.model, options.rounds))


if __name__ == "__main__":
    main()
