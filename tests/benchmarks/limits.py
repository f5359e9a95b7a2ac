"""How close a decoding step and a training step are to the machine's limit.

    .venv/bin/python tests/benchmarks/limits.py [--sequences 16 --tokens 128 --length 256 --rounds 5]

Both limits are measured in the same run: the bytes that two or more cores read from memory in a
second, and the products (multiply and add: two operations) of single-precision matrices by oneDNN,
as the trainer multiplies them. A decoding step reads every weight once, however many sequences it
has, and does 2 operations for each sequence and weight: its limit is the longer of the two. Forward
and backward do 6 operations for each token and weight (2 forward, 4 backward: Kaplan et al. 2020,
section 2.1), attention not counted. Engine and trainer are those of a session, on a CPU; the
sequences share no prefix, so tree packing saves nothing. Best of ``--rounds``: what else runs only
slows.

Below it each step by part (limit_parts.py), so that one sees by what it misses its limit: products
alone, the vocabulary, and what is left, which is the rest of the model and everything between its
kernels.
"""

import argparse
import asyncio
import math
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]
# As engine and trainer wait, so that their parts are timed alike.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "3000")

from limit_parts import Shapes, decoding_parts, parts_table, training_parts  # noqa: E402

from gpu_runtime.interfaces import SamplingOptions, TokenSource  # noqa: E402
from gpu_runtime.loop.sample import Sample  # noqa: E402
from support.engine_loop import Loop, loop_open  # noqa: E402
from support.rank_steps import gradient  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402

MODEL = ROOT / ".data" / "models" / "SmolLM2-135M-Instruct"
PROMPT = 32
GIB = 2**30


def main() -> None:
    """Measure the machine, then the engine and the trainer, and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", default=str(MODEL))
    options.add_argument("--sequences", type=int, default=16)
    options.add_argument("--tokens", type=int, default=128, help="sampled by each sequence")
    options.add_argument(
        "--length", type=int, default=256, help="of each of 8 sequences of a training step"
    )
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    load = os.getloadavg()[0]
    read, products = read_bytes_per_s(chosen.rounds), products_per_s(chosen.rounds)
    weights, step_s, trained = asyncio.run(measured(chosen))
    fastest_s = max(4 * weights / read, 2 * weights * chosen.sequences / products)
    most = products / (6 * weights)
    print(
        f"{os.cpu_count()} cores, load {load:.1f} before it; {read / 1e9:.1f} GB/s read, {products / 1e9:.0f} GFLOP/s"
    )
    print(f"{Path(chosen.model).name}: {weights / 1e6:.1f} million weights of 4 bytes\n")
    print("| what | measured | limit | share of the limit |\n| --- | --- | --- | --- |")
    print(
        f"| a decoding step of {chosen.sequences} sequences | {step_s * 1e3:.1f} ms | {fastest_s * 1e3:.1f} ms |"
        f" {fastest_s / step_s:.0%} |"
    )
    print(
        f"| forward and backward, 8 sequences of {chosen.length} | {trained:.0f} tokens/s | {most:.0f} tokens/s |"
        f" {trained / most:.0%} |"
    )
    shapes, tokens = Shapes.of(chosen.model), 8 * chosen.length
    print(
        f"\n| part of the decoding step, {step_s * 1e3:.1f} ms | alone | share |\n| --- | --- | --- |"
    )
    decoding = decoding_parts(shapes, chosen.sequences, chosen.rounds)
    print(
        parts_table(decoding, step_s, "left: attention, norms, scheduling, Python between kernels")
    )
    print(
        f"\n| part of the training step, {tokens / trained * 1e3:.0f} ms | alone | share |\n| --- | --- | --- |"
    )
    print(
        parts_table(
            training_parts(shapes, tokens, chosen.rounds),
            tokens / trained,
            "left: attention, norms, activations, loss",
        )
    )


def read_bytes_per_s(rounds: int) -> float:
    """What all cores read of a buffer that no cache holds."""
    import torch

    buffer = torch.ones(GIB // 4)
    return max(GIB / seconds(buffer.sum) for _ in range(rounds + 1))


def products_per_s(rounds: int, size: int = 2048) -> float:
    """Floating-point operations of oneDNN's product of two matrices, [size, size] each."""
    import torch

    from gpu_runtime.training.cpu.onednn_linear import products

    left, right = torch.rand(1, size, size), torch.rand(1, size, size)
    return max(2 * size**3 / seconds(lambda: products(left, right)) for _ in range(rounds + 1))


def seconds(work: Callable[[], object]) -> float:
    """How long ``work`` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


async def measured(chosen: argparse.Namespace) -> tuple[int, float, float]:
    """The model's weights, seconds of a decoding step, and trained tokens in a second."""
    config = SessionConfig(
        max_context_length=max(PROMPT + chosen.tokens, chosen.length), grpo_n=2, tasks_per_batch=4
    )
    async with loop_open(chosen.model, config, "cpu") as loop:
        weights = weight_count(chosen.model)
        steps = [
            await decoding_step_s(loop.engine, chosen.sequences, chosen.tokens, n)
            for n in range(chosen.rounds)
        ]
        speeds = [await trained_tokens_per_s(loop, chosen.length, n) for n in range(chosen.rounds)]
    return weights, min(steps), max(speeds)


def weight_count(model: str) -> int:
    """Numbers in the model's safetensors: an output layer that shares the embedding's is read and
    multiplied once.
    """
    from safetensors import safe_open

    total = 0
    for path in Path(model).glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                total += math.prod(file.get_slice(name).get_shape())
    return total


async def decoding_step_s(engine: TokenSource, sequences: int, tokens: int, seed: int) -> float:
    """Seconds between two tokens while ``sequences`` are sampled together, from when the last of
    them has begun.
    """
    source = random.Random(seed)
    options = SamplingOptions(max_tokens=tokens, temperature=1.0, ignore_eos=True)
    arrived: list[list[float]] = [[] for _ in range(sequences)]

    async def one(number: int) -> None:
        prompt = [source.randrange(100, 40_000) for _ in range(PROMPT)]
        async for delta in engine.generate(f"{seed}-{number}", prompt, options):
            arrived[number] += [time.perf_counter()] * len(delta.token_ids_T)

    await asyncio.gather(*(one(number) for number in range(sequences)))
    begin, end = max(times[0] for times in arrived), min(times[-1] for times in arrived)
    steps = sum(begin < at <= end for at in arrived[0])
    return (end - begin) / steps


async def trained_tokens_per_s(loop: Loop, length: int, seed: int) -> float:
    """Tokens of eight sequences through forward and backward in a second; the weights stay."""
    source = random.Random(seed)
    mask, old = (0,) + (1,) * (length - 1), (0.0,) + (-1.0,) * (length - 1)
    samples = [
        Sample(
            tuple(source.randrange(100, 40_000) for _ in range(length)),
            mask,
            old,
            (-1.0) ** row,
            group=row // 2,
        )
        for row in range(8)
    ]
    began = time.perf_counter()
    await gradient(loop.trainer, samples)
    return 8 * length / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
