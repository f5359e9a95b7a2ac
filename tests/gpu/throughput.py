"""Tokens per second, memory and model FLOPs utilisation of a training step on a CUDA device, for a
0.6B-shaped model, beside what prime-rl published for its own trainer and the same shape
(prime_rl.json).

    python tests/gpu/throughput.py [--json FILE] [--smoke] [--tokens 16384] [--peak-tflops 989]

The model has the shape of Qwen3-0.6B and random weights. ``flat``: one sample of 16k tokens, half
of it trained; ``tree``: groups of 8 with a prompt of 1024 and completions of 128, packed to 16k
nodes a row; ``full``: what prime-rl's benchmark computes, two samples of 16k tokens of which every
one is trained, each a row, layers computed twice. Through TrainerRanks, as a session trains:
forward, backward, optimizer step. FLOPs: support/model_flops.py; for ``full``, and for it alone,
the two ways to count agree. --peak-tflops is the device's dense bf16 peak, where its name is not
known.
"""

import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from gpu.part import Table, part_parser  # noqa: E402

from gpu_runtime.loop.sample import Sample  # noqa: E402
from gpu_runtime.training.ranks import TrainerRanks  # noqa: E402
from support.measured_ranks import memory_of, ranks_measured  # noqa: E402
from support.model_flops import Shape, peak_tflops, step_flops  # noqa: E402
from support.rank_steps import gradient, optim_step  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402

SHAPE = {
    "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936, "max_position_embeddings": 65_538,
}  # fmt: skip
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "vocab_size": 512,
    "head_dim": 32,
}
PUBLISHED, SHAPE_NAME = Path(__file__).with_name("prime_rl.json"), "Qwen/Qwen3-0.6B"
COLUMNS = (
    "batch", "tokens given", "positions computed", "s a step", "positions / s", "tokens given / s", "TFLOP/s", "MFU",
    "GiB at most",
)  # fmt: skip
WARM_UP, STEPS = 2, 5
GIB = 1 << 30


@dataclass(frozen=True)
class Run:
    """What every line is measured with."""

    model: str
    shape: Shape
    tokens: int
    device: str
    peak: float | None
    steps: int


def model_make(folder: Path, shape: Shape) -> None:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    Qwen3ForCausalLM(Qwen3Config(**shape, tie_word_embeddings=True)).to(
        torch.bfloat16
    ).save_pretrained(folder)


def flat(tokens: int, vocabulary: int) -> list[Sample]:
    """One sample with half of it trained."""
    return [_sample(tokens // 2, tokens // 2 + 1, vocabulary, random.Random(0))]


def tree(
    tokens: int, vocabulary: int, prompt: int = 1024, completion: int = 128, group: int = 8
) -> list[Sample]:
    """As many groups as make ``tokens`` nodes."""
    samples = []
    for number in range(max(1, tokens // (prompt + group * completion))):
        shared = _sample(prompt, 0, vocabulary, random.Random(number)).token_ids_T
        rng = random.Random(number + 10_000)
        for _ in range(group):
            answer = _sample(0, completion, vocabulary, rng).token_ids_T
            mask = (0,) * prompt + (1,) * completion
            samples.append(
                Sample(shared + answer, mask, tuple(-12.0 * m for m in mask), 1.0, group=number)
            )
    return samples


def full(tokens: int, vocabulary: int, count: int = 2) -> list[Sample]:
    """``count`` samples that share nothing, each of one row, whose every position is trained."""
    return [_sample(1, tokens, vocabulary, random.Random(number)) for number in range(count)]


def _sample(prompt: int, completion: int, vocabulary: int, rng: random.Random) -> Sample:
    ids = tuple(rng.randrange(vocabulary) for _ in range(prompt + completion))
    mask = (0,) * prompt + (1,) * completion
    return Sample(ids, mask, tuple(-12.0 * m for m in mask), 1.0)


async def measure(name: str, samples: list[Sample], run: Run, *, checkpointing: bool) -> list[str]:
    """One line of the table."""
    config = SessionConfig(
        micro_batch_tokens=run.tokens, gradient_checkpointing=checkpointing, learning_rate=1e-6,
        max_context_length=run.tokens + 2,
    )  # fmt: skip
    with ranks_measured():
        trainer = TrainerRanks(run.model, config, run.device)
    try:
        await trainer.ready()
        times = []
        for step in range(1, WARM_UP + run.steps + 1):
            began = time.perf_counter()
            metrics = await gradient(trainer, samples)
            await optim_step(trainer, step)
            times.append(time.perf_counter() - began)
        memory = await memory_of(trainer)
    finally:
        await trainer.close()
    seconds = statistics.median(times[WARM_UP:])
    nodes, given = metrics["tokens_computed"], sum(len(sample.token_ids_T) for sample in samples)
    rate = step_flops(samples, run.tokens, run.shape) / seconds / 1e12
    cells = [
        name,
        f"{given}",
        f"{nodes:.0f}",
        f"{seconds:.3f}",
        f"{nodes / seconds:.0f}",
        f"{given / seconds:.0f}",
    ]
    return [
        *cells,
        f"{rate:.1f}",
        f"{rate / run.peak:.1%}" if run.peak else "",
        f"{memory / GIB:.1f}",
    ]


def published(tokens: int) -> list[list[str]]:
    """prime-rl's rows of this shape, one device and rows of ``tokens``."""
    found = []
    for row in json.loads(PUBLISHED.read_text())["rows"]:
        if (row["model"], row["devices"], row["tokens"], row["type"]) != (
            SHAPE_NAME,
            1,
            tokens,
            "rl",
        ):
            continue
        peak, rate = peak_tflops(row["device"]) or 0.0, f"{row['tokens_per_s']:.0f}"
        name = f"prime-rl, published: full, {row['activations']}, {row['device'].removeprefix('NVIDIA ')}"
        given, share = f"{row['micro_batches'] * tokens}", row["mfu_percent"]
        cells = [
            name,
            given,
            given,
            f"{row['step_s']:.3f}",
            rate,
            rate,
            f"{share * peak / 100:.1f}",
            f"{share:.1f}%",
        ]
        found.append([*cells, f"{row['peak_memory_gib']:.1f}"])
    return found


def notes_of(device_name: str, rows: list[list[str]]) -> list[str]:
    about = json.loads(PUBLISHED.read_text())
    if not rows:
        return ["prime-rl publishes no row of one device with rows of this length."]
    return [
        f"This run: {device_name}. prime-rl's rows: {about['source']}; measured 2026-01-15, read at"
        f" {about['read_at_commit'][:9]}. To be read beside `full` with layers computed twice: the same shape, two rows"
        " of as many tokens, all of them trained. Theirs is compiled by torch.compile, attends with FlashAttention 3,"
        " and is one process of FSDP; on another device than theirs the lines do not compare.",
        "Their tokens a second are over a window of steps, their seconds a step leave a part of that time out.",
        "prime-rl publishes none of: " + "; ".join(about["not_published"]) + ".",
    ]


async def main() -> None:
    parser = part_parser(__doc__)
    parser.add_argument("--tokens", type=int, default=16_384, help="nodes of one row")
    parser.add_argument(
        "--peak-tflops", type=float, help="dense bf16; of H100, H200 and A100 it is known"
    )
    options = parser.parse_args()
    import torch

    name = "a CPU" if options.smoke else torch.cuda.get_device_name()
    shape, tokens, device = (
        (SHAPE | SMALL, 256, "cpu") if options.smoke else (SHAPE, options.tokens, "cuda")
    )
    peak = None if options.smoke else options.peak_tflops or peak_tflops(name)
    table = Table(
        f"Training: steps of the shape of Qwen3-0.6B, rows of {tokens} positions, {name}", COLUMNS
    )
    with tempfile.TemporaryDirectory() as folder:
        model_make(Path(folder), shape)
        run = Run(folder, shape, tokens, device, peak, 1 if options.smoke else STEPS)
        vocabulary = shape["vocab_size"]
        for batch, samples, twice in (
            ("flat", flat(tokens, vocabulary), False),
            ("tree", tree(tokens, vocabulary, *((64, 8) if options.smoke else ())), False),
            (
                "tree, layers computed twice",
                tree(tokens, vocabulary, *((64, 8) if options.smoke else ())),
                True,
            ),
            ("full, layers computed twice", full(tokens, vocabulary), True),
        ):
            table.rows.append(await measure(batch, samples, run, checkpointing=twice))
            print(f"{batch}: {table.rows[-1][3]} s a step", file=sys.stderr, flush=True)
    theirs = [] if options.smoke else published(tokens)
    table.rows += theirs
    table.notes += ["Figures of a CPU mean nothing."] if options.smoke else notes_of(name, theirs)
    table.write(options.json)


if __name__ == "__main__":
    asyncio.run(main())
