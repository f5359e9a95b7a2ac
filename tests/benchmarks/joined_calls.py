"""Short operations of several adapters, one after another and joined in one pass.

    .venv/bin/python tests/benchmarks/joined_calls.py [--model FOLDER]    --help for more

Each of N adapters of rank 16 has a ``forward_backward`` of a few rows of random tokens.
``apart``: one call after the other. ``joined``: one pass, in which each adapter computes its own
tokens. Without ``--model`` the tiny model
of many_models.py. Seconds and CPU seconds of all threads, medians of ``--rounds`` after one that is
not counted, the sides interleaved; ratios apart / joined.
"""

import argparse
import statistics
import tempfile
from functools import partial
from pathlib import Path

import many_models as many  # sets the paths and the environment first
import numpy as np
import torch

from gpu_runtime.model_interfaces import LoraConfig, ModelCall
from gpu_runtime.training.cpu.process import heap_keep, same_bits_keep
from gpu_runtime.training.models.trainer import BaseWithModels
from gpu_runtime.training.rank_spec import RankSpec
from tinkerscript.processes import machine_share
from tinkerscript.wire.config import SessionConfig

# adapters, rows of each, tokens of a row
OPERATIONS = [(4, 1, 32), (4, 4, 32), (16, 1, 32), (16, 1, 64), (8, 1, 128), (4, 1, 256)]


def calls_make(adapters: int, rows: int, tokens: int, vocabulary: int) -> list[ModelCall]:
    """Of each adapter its own; no two share a token at their beginning."""
    data = many.data_make(adapters * rows, tokens, vocabulary)
    for first, datum in enumerate(data):
        datum.token_ids_N[0] = first
    return [
        ModelCall(f"m{number}", data[number * rows : (number + 1) * rows], "cross_entropy", {})
        for number in range(adapters)
    ]


def measure(base: Path, rounds: int, threads: int) -> None:
    trainer = BaseWithModels(RankSpec(str(base), SessionConfig(), 0, 1, "", "cpu", threads))
    for number in range(max(adapters for adapters, _, _ in OPERATIONS)):
        trainer.create_model(f"m{number}", LoraConfig(16, seed=number))
    for adapters, rows, tokens in OPERATIONS:
        calls = calls_make(adapters, rows, tokens, trainer._limits.vocabulary)  # noqa: SLF001
        sides = partial(apart, trainer, calls), partial(joined, trainer, calls)
        times = np.array([[many.timed(side) for side in sides] for _ in range(rounds + 1)])
        (wall_a, cpu_a), (wall_j, cpu_j) = [
            [statistics.median(column) for column in times[1:, side].T] for side in range(2)
        ]
        print(
            f"{adapters:>3} operations of {rows} x {tokens}: apart {wall_a:.3f} s "
            f"({cpu_a:.3f} CPU s), joined {wall_j:.3f} s ({cpu_j:.3f} CPU s), "
            f"{wall_a / wall_j:.2f} ({cpu_a / cpu_j:.2f}) times as fast",
            flush=True,
        )


def apart(trainer: BaseWithModels, calls: list[ModelCall]) -> None:
    for each in calls:
        trainer.forward_backward(each.model_id, each.data, each.loss_fn, {})


def joined(trainer: BaseWithModels, calls: list[ModelCall]) -> None:
    if trainer.forward_backward_joined(calls) is None:
        raise SystemExit("this machine joins none: its products round by their size")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=machine_share.cpus())
    options = parser.parse_args()
    heap_keep()
    same_bits_keep()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        base = options.model or many.tiny_make(Path(folder) / "tiny")
        measure(base, options.rounds, options.threads)


if __name__ == "__main__":
    main()
