"""Tokens per second and model FLOPs utilisation of a training step on a CUDA device, for a 0.6B-shaped model.

    python tests/gpu/throughput.py [--tokens 16384] [--peak-tflops 989]

Prints rows for RESULTS.md. The model has the shape of Qwen3-0.6B and random weights. ``flat``: one sample of 16k
tokens; ``tree``: groups of 8 with a prompt of 1024 and completions of 128, packed to 16k nodes a row. Through
TrainerRanks, as a session trains: forward, backward, optimizer step. FLOPs are counted: 6 for each weight of
a matrix and position that it meets (the head meets trained positions alone) and 12 for each pair of positions that
attends, head size and head. Recomputation is not counted. --peak-tflops is the device's dense bf16 peak.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from gpu_runtime.interfaces import Sample  # noqa: E402
from gpu_runtime.training.ranks import TrainerRanks  # noqa: E402
from gpu_runtime.training.rows.loop_data import loop_order, sample_data  # noqa: E402
from gpu_runtime.training.rows.packing import pack, pack_row  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402

SHAPE = {
    "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936, "max_position_embeddings": 32_768,
}  # fmt: skip
WARM_UP, STEPS = 2, 5


def model_make(folder: Path, shape: dict[str, int]) -> None:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    Qwen3ForCausalLM(Qwen3Config(**shape, tie_word_embeddings=True)).to(torch.bfloat16).save_pretrained(folder)


def flat(tokens: int, vocabulary: int) -> list[Sample]:
    """One sample with half of it trained."""
    return [_sample(tokens // 2, tokens // 2 + 1, vocabulary, random.Random(0))]


def tree(tokens: int, vocabulary: int, prompt: int = 1024, completion: int = 128, group: int = 8) -> list[Sample]:
    """As many groups as make ``tokens`` nodes."""
    samples = []
    for number in range(max(1, tokens // (prompt + group * completion))):
        shared = _sample(prompt, 0, vocabulary, random.Random(number)).token_ids_T
        rng = random.Random(number + 10_000)
        for _ in range(group):
            answer = _sample(0, completion, vocabulary, rng).token_ids_T
            mask = (0,) * prompt + (1,) * completion
            samples.append(Sample(shared + answer, mask, tuple(-12.0 * m for m in mask), 1.0, group=number))
    return samples


def _sample(prompt: int, completion: int, vocabulary: int, rng: random.Random) -> Sample:
    ids = tuple(rng.randrange(vocabulary) for _ in range(prompt + completion))
    mask = (0,) * prompt + (1,) * completion
    return Sample(ids, mask, tuple(-12.0 * m for m in mask), 1.0)


def flops(samples: list[Sample], rows: list[list[int]], shape: dict[str, int]) -> float:
    """Of one forward and backward pass."""
    hidden, heads, size = shape["hidden_size"], shape["num_attention_heads"], shape["head_dim"]
    attention = 2 * hidden * heads * size + 2 * hidden * shape["num_key_value_heads"] * size
    body = shape["num_hidden_layers"] * (attention + 3 * hidden * shape["intermediate_size"])
    data = sample_data(samples)
    packed = [pack_row(data, row) for row in rows]
    nodes, trained = sum(len(row.tokens_N) for row in packed), sum(len(row.source_K) for row in packed)
    pairs = sum(depth + 1 for row in packed for depth in row.depth_N)
    head = 6.0 * hidden * shape["vocab_size"] * trained
    return 6.0 * body * nodes + head + 12.0 * shape["num_hidden_layers"] * heads * size * pairs


async def measure(name: str, samples: list[Sample], model: str, options) -> None:
    """Print one row."""
    config = SessionConfig(
        micro_batch_tokens=options.tokens, gradient_checkpointing=options.checkpointing, learning_rate=1e-6,
        max_context_length=options.tokens + 2,
    )  # fmt: skip
    trainer = TrainerRanks(model, config, options.device)
    try:
        await trainer.ready()
        times = []
        for step in range(1, WARM_UP + STEPS + 1):
            began = time.perf_counter()
            metrics = await trainer.forward_backward(samples)
            await trainer.optim_step(step)
            times.append(time.perf_counter() - began)
    finally:
        await trainer.close()
    seconds = statistics.median(times[WARM_UP:])
    rows = pack(sample_data(samples), options.tokens, loop_order(samples))
    nodes, given = metrics["tokens_computed"], sum(len(sample.token_ids_T) for sample in samples)
    rate = flops(samples, rows, options.shape) / seconds / 1e12
    cells = [name, f"{given}", f"{nodes:.0f}", f"{seconds:.3f}", f"{nodes / seconds:.0f}", f"{given / seconds:.0f}"]
    cells += [f"{rate:.1f}", f"{rate / options.peak_tflops:.1%}"]
    print("| " + " | ".join(cells) + " |", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=16_384, help="nodes of one row")
    parser.add_argument("--peak-tflops", type=float, default=989.0, help="dense bf16; H100 and H200 SXM: 989")
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", default=SHAPE, type=lambda text: SHAPE | dict(p.split("=") for p in text.split(",")))
    options = parser.parse_args()
    options.shape = {name: int(value) for name, value in options.shape.items()}
    print("| batch | tokens given | positions computed | s a step | positions / s | tokens given / s | TFLOP/s | MFU |")
    print("| --- " * 8 + "|")
    with tempfile.TemporaryDirectory() as folder:
        model_make(Path(folder), options.shape)
        vocabulary = options.shape["vocab_size"]
        await measure("flat", flat(options.tokens, vocabulary), folder, options)
        await measure("tree", tree(options.tokens, vocabulary), folder, options)


if __name__ == "__main__":
    asyncio.run(main())
