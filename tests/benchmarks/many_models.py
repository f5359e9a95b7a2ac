"""Tokens per second of forward_backward in the trainer of many models, beside the managed
trainer's.

    .venv/bin/python tests/benchmarks/many_models.py [--model FOLDER] [--rounds 5] [--rank 8]

Without ``--model`` a tiny one is made: Llama-shaped, 2 layers, hidden 64, vocabulary 2048. Shapes
are data x tokens of random ids, every token a target, fp32, all cores; cross_entropy. ``adapter``:
LoRA of ``--rank`` on every linear layer and the head; ``all weights``; ``managed``: the session's
trainer (DeepSpeed) on the same tokens, without its step. Each figure is the median of ``--rounds``
after one that is not counted, the sides interleaved; ``CPU`` is tokens per CPU second of all
threads, which other work on the machine hardly moves. Then: ``optim_step`` alone, an adapter saved,
two and eight adapters by turns.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]
os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "DS_ACCELERATOR": "cpu"}
import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from gpu_runtime.loop.sample import Sample  # noqa: E402
from gpu_runtime.model_interfaces import AdamParams, Datum, LoraConfig  # noqa: E402
from gpu_runtime.training.cpu.process import heap_keep  # noqa: E402
from gpu_runtime.training.models.trainer import BaseWithModels  # noqa: E402
from gpu_runtime.training.rank_spec import RankSpec  # noqa: E402
from support.rank_probe import trainer_make  # noqa: E402
from support.rank_steps import gradient_here  # noqa: E402
from tinkerscript.processes import machine_share  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402

SHAPES = [(8, 128), (8, 512), (32, 256)]


def tiny_make(folder: Path) -> Path:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=2048, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, max_position_embeddings=1024, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def data_make(count: int, tokens: int, vocabulary: int) -> list[Datum]:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, vocabulary, (count, tokens + 1))
    ones = np.ones(tokens, dtype=np.float32)
    return [Datum(row[:-1], {"target_tokens": row[1:], "weights": ones}) for row in ids]


def samples_of(data: list[Datum]) -> list[Sample]:
    """The same tokens and targets for the managed trainer."""
    samples = []
    for datum in data:
        ids = (*datum.token_ids_N.tolist(), int(datum.loss_inputs["target_tokens"][-1]))
        rest = len(ids) - 1
        samples.append(Sample(ids, (0,) + (1,) * rest, (0.0,) + (-7.6,) * rest, advantage=1.0))
    return samples


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """(seconds, CPU seconds of all threads)."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def row_print(name: str, tokens: int, times: list[tuple[float, float]]) -> None:
    wall, cpu = (statistics.median(column) for column in zip(*times[1:], strict=True))
    print(
        f"{name:<28}{wall * 1e3:>10.1f} ms{tokens / wall:>12.0f} tok/s{tokens / cpu:>12.0f} tok/CPU s"
    )


def shapes_measure(base: Path, rounds: int, rank: int) -> None:
    config = SessionConfig(max_context_length=1024)
    spec = RankSpec(str(base), config, 0, 1, "", "cpu", machine_share.cpus())
    adapters, whole = BaseWithModels(spec), BaseWithModels(spec)
    adapters.create_model("m", LoraConfig(rank, seed=0))
    whole.create_model("m", None)
    managed = trainer_make(str(base), config.model_copy(update={"loss": "cross_entropy"}))
    vocabulary = managed.engine.module.model.config.vocab_size
    for count, tokens in SHAPES:
        data = data_make(count, tokens, vocabulary)
        samples = samples_of(data)
        sides: dict[str, Callable[[], object]] = {
            "adapter": lambda data=data: adapters.forward_backward("m", data, "cross_entropy", {}),
            "all weights": lambda data=data: whole.forward_backward("m", data, "cross_entropy", {}),
            "managed": lambda samples=samples: gradient_here(managed, samples),
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for _ in range(rounds + 1):
            for name, work in sides.items():
                times[name].append(timed(work))
        for name in sides:
            row_print(f"{count} x {tokens}, {name}", count * tokens, times[name])


def rest_measure(base: Path, rounds: int, rank: int, folder: Path) -> None:
    trainer = BaseWithModels(
        RankSpec(str(base), SessionConfig(), 0, 1, "", "cpu", machine_share.cpus())
    )
    data = data_make(8, 128, 2048)
    steps, saves = [], []
    for number in range(8):
        trainer.create_model(f"m{number}", LoraConfig(rank, seed=number))
    for _ in range(rounds + 1):
        trainer.forward_backward("m0", data, "cross_entropy", {})
        steps.append(timed(lambda: trainer.optim_step("m0", AdamParams())))
        saves.append(timed(lambda: trainer.publish("m0", folder / "adapter")))
    print(
        f"{'optim_step, adapter':<28}{statistics.median(wall for wall, _ in steps[1:]) * 1e3:>10.1f} ms"
    )
    print(
        f"{'publish, adapter':<28}{statistics.median(wall for wall, _ in saves[1:]) * 1e3:>10.1f} ms"
    )
    for count in (2, 8):

        def by_turns(count: int = count) -> None:
            for number in range(count):
                trainer.forward_backward(f"m{number}", data, "cross_entropy", {})

        row_print(
            f"8 x 128, {count} adapters by turns",
            count * 8 * 128,
            [timed(by_turns) for _ in range(rounds + 1)],
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rank", type=int, default=8)
    options = parser.parse_args()
    heap_keep()
    torch.set_num_threads(machine_share.cpus())
    with tempfile.TemporaryDirectory() as folder:
        base = options.model or tiny_make(Path(folder) / "tiny")
        shapes_measure(base, options.rounds, options.rank)
        rest_measure(base, options.rounds, options.rank, Path(folder))


if __name__ == "__main__":
    main()
