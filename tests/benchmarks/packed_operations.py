"""What it could bring at most to compute operations of several adapters in one pass.

    .venv/bin/python tests/benchmarks/packed_operations.py [--model FOLDER]    --help for more

Each of N adapters of rank 16 has a ``forward_backward`` of a few rows of 32 random tokens.
``apart``: one operation after the other, each under its own adapter, as they are done.
``together``: all of their rows as one operation of one adapter, which is what a packed pass
computes but for the products of the adapters, which it would compute for each. Without ``--model``
the tiny model of many_models.py. Seconds and CPU seconds of all threads, medians of ``--rounds``
after one that is not counted, the sides interleaved; ratios apart / together.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

import many_models as many  # sets the paths and the environment first
import numpy as np
import torch

from gpu_runtime.model_interfaces import Datum, LoraConfig
from gpu_runtime.training.cpu.process import heap_keep, same_bits_keep
from gpu_runtime.training.models.trainer import BaseWithModels
from gpu_runtime.training.rank_spec import RankSpec
from tinkerscript.processes import machine_share
from tinkerscript.wire.config import SessionConfig

# (adapters, rows of each)
OPERATIONS = [(4, 1), (4, 4), (16, 1), (16, 4)]
TOKENS = 32


def operations_make(adapters: int, rows: int, vocabulary: int) -> list[list[Datum]]:
    """Of each adapter its data; no two share a token at their beginning."""
    data = many.data_make(adapters * rows, TOKENS, vocabulary)
    for first, datum in enumerate(data):
        datum.token_ids_N[0] = first
    return [data[at : at + rows] for at in range(0, len(data), rows)]


def measure(base: Path, rounds: int, threads: int) -> None:
    trainer = BaseWithModels(RankSpec(str(base), SessionConfig(), 0, 1, "", "cpu", threads))
    for number in range(max(adapters for adapters, _ in OPERATIONS)):
        trainer.create_model(f"m{number}", LoraConfig(16, seed=number))
    for adapters, rows in OPERATIONS:
        operations = operations_make(adapters, rows, trainer._vocabulary)  # noqa: SLF001

        def apart(operations: list[list[Datum]] = operations) -> None:
            for number, data in enumerate(operations):
                trainer.forward_backward(f"m{number}", data, "cross_entropy", {})

        def together(operations: list[list[Datum]] = operations) -> None:
            trainer.forward_backward("m0", sum(operations, []), "cross_entropy", {})

        times = np.array(
            [[many.timed(side) for side in (apart, together)] for _ in range(rounds + 1)]
        )
        (wall_a, cpu_a), (wall_t, cpu_t) = [
            [statistics.median(column) for column in times[1:, side].T] for side in range(2)
        ]
        print(
            f"{adapters:>3} operations of {rows} x {TOKENS}: apart {wall_a:.3f} s "
            f"({cpu_a:.3f} CPU s), together {wall_t:.3f} s ({cpu_t:.3f} CPU s), "
            f"{wall_a / wall_t:.2f} ({cpu_a / cpu_t:.2f}) times as fast",
            flush=True,
        )


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
