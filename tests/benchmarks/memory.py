"""Peak memory of one forward and backward pass: chunked log-probabilities against logits of every
position.

    .venv/bin/python tests/benchmarks/memory.py [--model FOLDER] [--tokens 2048 4096]

Each measurement is a process of its own, so that its peak resident size is its own. ``chunked`` is
the trainer's Policy; ``full`` makes the ``[tokens, vocabulary]`` logits and their log-softmax, with
everything else the same. The figure is the peak less what the process held before the pass (model
loaded, gradients allocated).
"""

import argparse
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk")]
MODEL = ROOT / ".data" / "models" / "SmolLM2-135M-Instruct"


def peak_measure(kind: str, model: str, tokens: int) -> None:
    """Print the MiB that a pass over one sample of ``tokens`` tokens, all trained, adds at its
    peak.
    """
    import torch

    from gpu_runtime.loop.data import sample_data
    from gpu_runtime.loop.sample import Sample
    from gpu_runtime.training.policy import Policy
    from gpu_runtime.training.rows.packing import pack_row
    from gpu_runtime.training.rows.tensors import RowTensors

    policy = Policy.load(model, torch.float32)
    for parameter in policy.parameters():
        parameter.grad = torch.zeros_like(parameter)
    rng = random.Random(0)
    vocabulary = policy.model.config.vocab_size
    ids = tuple(rng.randrange(vocabulary) for _ in range(tokens + 1))
    sample = Sample(ids, (0,) + (1,) * tokens, (0.0,) * len(ids), advantage=1.0)
    before = _status_mib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    data = sample_data([sample])
    row = RowTensors.of(pack_row(data, [0]), data, torch.device("cpu"))
    if kind == "chunked":
        logprobs = policy(row)
    else:
        nodes = {
            "input_ids": row.tokens_N[None],
            "position_ids": row.depth_N[None],
            "tree": row.visible,
        }
        logits = policy.model(**nodes, use_cache=False).logits[0]
        logprobs = logits[row.source_R].log_softmax(-1).gather(1, row.target_K[:, None])[:, 0]
    logprobs.sum().backward()
    print(_status_mib("VmHWM") - before)


def _status_mib(name: str) -> float:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)
    )
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default=str(MODEL))
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 4096])
    parser.add_argument("--one", choices=["chunked", "full"], help="measure in this process")
    options = parser.parse_args()
    if options.one:
        peak_measure(options.one, options.model, options.tokens[0])
        return
    print("| tokens | full logits, MiB | chunked, MiB | saved |")
    print("| --- | --- | --- | --- |")
    for tokens in options.tokens:
        peaks = {}
        for kind in ("full", "chunked"):
            command = [
                sys.executable,
                __file__,
                "--one",
                kind,
                "--model",
                options.model,
                "--tokens",
                str(tokens),
            ]
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
            peaks[kind] = float(done.stdout.split()[-1])
        print(
            f"| {tokens} | {peaks['full']:.0f} | {peaks['chunked']:.0f} | {1 - peaks['chunked'] / peaks['full']:.0%} |"
        )


if __name__ == "__main__":
    main()
