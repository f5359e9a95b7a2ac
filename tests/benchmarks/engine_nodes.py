"""How much slower or faster one engine over two nodes decodes than an engine on one of them.

    .venv/bin/python tests/benchmarks/engine_nodes.py [--hidden 576 --layers 30 --sequences 1 16 --tokens 64 --rounds 5]

The nodes are those of a Slurm that is started for it on this machine, each with one core: the
engine on one node has one, the engine over both has two, and half of every layer on each. So on two
nodes a step has half the products and reads to wait for, and besides that two sums over gloo in
each layer. They go over loopback here: between machines they take longer. Both engines are loaded
at once, and asked in turns within each round; a step is what limits.py measures. Best of the
rounds. The model has random weights, and the width and depth of SmolLM2-135M with heads that can be
shared out (8, 4 of keys): the bundled one has 9.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from limits import decoding_step_s  # noqa: E402

from console.scheduling.processes import wait_until  # noqa: E402
from gpu_runtime.engine.over_nodes.others import OtherNodes  # noqa: E402
from gpu_runtime.engine.vllm_engine import VllmEngine  # noqa: E402
from gpu_runtime.engine.vllm_process import imports_begin  # noqa: E402
from gpu_runtime.loading.engine_nodes import engine_nodes  # noqa: E402
from launching.slurm_cluster import slurm_cluster  # noqa: E402
from tinkerscript.wire.config import SessionConfig  # noqa: E402

BUNDLED = ROOT / ".data" / "models" / "SmolLM2-135M-Instruct"
LIMIT_S = 1500
FOUND = "found.json"


def main() -> None:
    """Submit a job over two nodes and print what it measured."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hidden", type=int, default=576)
    options.add_argument("--layers", type=int, default=30)
    options.add_argument("--sequences", type=int, nargs="+", default=[1, 16])
    options.add_argument("--tokens", type=int, default=64, help="sampled by each sequence")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.inside:
        asyncio.run(inside(chosen.inside, chosen.sequences, chosen.tokens, chosen.rounds))
        return
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tinkerscript-benchmark-") as folder, slurm_cluster():
        weights = model_make(Path(folder) / "model", chosen.hidden, chosen.layers)
        found = submitted(Path(folder), sys.argv[1:])
    print(
        f"{os.cpu_count()} cores, one for each node, load {load:.1f} before it; {weights / 1e6:.0f} million weights\n"
    )
    print("| sequences | a step on one node | over two | tokens/s over two, as a multiple of one |")
    print("| --- | --- | --- | --- |")
    for sequences, (one_s, two_s) in found.items():
        print(
            f"| {sequences} | {one_s * 1e3:.1f} ms | {two_s * 1e3:.1f} ms | {one_s / two_s:.2f} |"
        )


def model_make(folder: Path, hidden: int, layers: int) -> int:
    """Write a model that two nodes can share, with the bundled one's tokenizer; returns how many
    weights it has.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    shutil.copytree(BUNDLED, folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    config = LlamaConfig(
        vocab_size=49_152, hidden_size=hidden, intermediate_size=hidden * 8 // 3, num_hidden_layers=layers,
        num_attention_heads=8, num_key_value_heads=4, head_dim=64, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return sum(weight.numel() for weight in model.parameters())


def submitted(folder: Path, arguments: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Run this file in a job over both nodes; what it measured."""
    command = " ".join([sys.executable, __file__, *arguments, "--inside", str(folder)])
    gang = [
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        "--mem=6000M",
        "--no-requeue",
    ]
    subprocess.run(
        ["sbatch", *gang, f"--chdir={folder}", f"--output={folder}/log"], check=True, text=True, timeout=20,
        input=f"#!/bin/sh\nexec {command}\n", stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TINKERSCRIPT_RUNTIME_CPUS": "1"},
    )  # fmt: skip
    if not wait_until((folder / FOUND).exists, timeout_s=LIMIT_S, poll_s=0.5):
        sys.exit(
            f"no end within {LIMIT_S} s: {(folder / 'log').read_text(errors='replace')[-4000:]}"
        )
    found: dict[str, tuple[float, float]] = json.loads((folder / FOUND).read_text())
    return found


async def inside(folder: Path, sequences: Sequence[int], tokens: int, rounds: int) -> None:
    """Both engines, in turns; leaves the best seconds of a step of each by the number of
    sequences.
    """
    os.environ["TINKERSCRIPT_RUNTIME_DIR"] = str(folder)
    imports_begin()
    model, config = str(folder / "model"), SessionConfig(max_context_length=256)
    config = config.model_copy(update={"nodes": 2, "trainer_ranks": 2})
    found: dict[int, tuple[float, float]] = {}
    with engine_nodes(model, config, 2) as others:
        assert isinstance(others, OtherNodes)
        engines = [
            await VllmEngine.start(model, config, "cpu"),
            await VllmEngine.start(model, config, "cpu", others=others),
        ]
        try:
            for count in sequences:
                steps = [
                    [await decoding_step_s(engine, count, tokens, number) for engine in engines]
                    for number in range(rounds)
                ]
                found[count] = (min(one for one, _ in steps), min(two for _, two in steps))
                print(count, steps, flush=True)
        finally:
            for engine in engines:
                await engine.close()
    (folder / f"{FOUND}.partial").write_text(json.dumps(found))
    (folder / f"{FOUND}.partial").rename(folder / FOUND)


if __name__ == "__main__":
    main()
