"""What one rank of a trainer holds on a CPU, in units of the weights' bytes: beside what a dry run
predicts.

    .venv/bin/python tests/benchmarks/rank_memory.py [--zero-stage 2] [--lora-rank 0] [--rows 1] [--dtype float32]

Memory is what this process has that no file backs (RssAnon), above what it had before the model was
loaded: some 0.2 GiB of that are libraries, which a dry run counts as the process'. The batch is
small, so that activations are few.
"""

import argparse
import random
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from gpu_runtime.loop.sample import Sample  # noqa: E402
from support.rank_probe import trainer_make  # noqa: E402
from support.rank_steps import gradient_here, optim_step_here  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402

MODEL = ROOT / ".data" / "models" / "SmolLM2-135M-Instruct"
WEIGHT_BYTES = 4
POLL_S = 0.003


class Watched:
    """The most of this process' memory since the last question, looked at every POLL_S."""

    def __init__(self, unit: int) -> None:
        self.base, self.unit, self.most = anonymous_bytes(), unit, 0
        threading.Thread(target=self._watch, daemon=True).start()

    def row(self, what: str) -> str:
        """Of the table; what comes next is another row's."""
        now, most = anonymous_bytes(), self.most
        self.most = 0
        return f"| {what} | {(now - self.base) / self.unit:.2f} | {(max(now, most) - self.base) / self.unit:.2f} |"

    def _watch(self) -> None:
        while True:
            self.most = max(self.most, anonymous_bytes())
            time.sleep(POLL_S)


def anonymous_bytes() -> int:
    """Of this process, now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024


def samples(count: int, length: int) -> list[Sample]:
    """A small batch."""
    source, mask = random.Random(1), (0,) + (1,) * (length - 1)
    rows = [tuple(source.randrange(2, 90) for _ in range(length)) for _ in range(count)]
    return [
        Sample(ids, mask, (0.0,) + (-4.5,) * (length - 1), (-1.0) ** n, group=n)
        for n, ids in enumerate(rows)
    ]


def main() -> None:
    """Load, and take two steps."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--zero-stage", type=int, default=2)
    options.add_argument("--lora-rank", type=int, default=0)
    options.add_argument(
        "--rows", type=int, default=1, help="of a batch: each has a gradient of its own"
    )
    options.add_argument(
        "--dtype",
        default="float32",
        help="of the weights; the table counts in float32 all the same",
    )
    chosen = options.parse_args()
    from limits import weight_count  # beside this file

    unit = weight_count(str(MODEL)) * WEIGHT_BYTES
    config = SessionConfig(
        zero_stage=chosen.zero_stage, lora_rank=chosen.lora_rank, micro_batch_tokens=64, dtype=chosen.dtype
    )  # fmt: skip
    memory, batch = Watched(unit), samples(2 * chosen.rows, 20)
    trainer = trainer_make(str(MODEL), config)
    rows = [memory.row("loaded")]
    for step in (1, 2):
        gradient_here(trainer, batch)
        rows.append(memory.row(f"forward and backward {step}"))
        optim_step_here(trainer, step)
        rows.append(memory.row(f"step {step}"))
    print(
        f"weights {unit / 2**30:.2f} GiB, {chosen}\n\n| after | now | most |\n| --- | --- | --- |",
        *rows,
        sep="\n",
    )


if __name__ == "__main__":
    main()
