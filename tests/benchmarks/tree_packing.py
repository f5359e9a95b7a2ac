"""What computing shared prefixes once is worth: forward and backward of one group, packed as a tree
against padded.

    .venv/bin/python tests/benchmarks/tree_packing.py [--model FOLDER] [--prompt 1024 --completion 128] [--rounds 3]

One model with the same weights, fp32, all cores; the same loss on the same trained tokens; the
packed side includes the building of the tree. ``padded`` is what a trainer without trees computes:
a rectangle ``[group, prompt + completion]`` in micro-batches of ``--micro-batch`` samples with
transformers' SDPA attention (its causal kernel, which skips what is masked: all samples here have
the same length) and logits of the completions alone, as TRL's GRPOTrainer makes them. The packed
side multiplies with oneDNN, as the trainer does; with ``--same-products`` the padded side does too,
which leaves the effect of packing alone. Times are interleaved; ``ratio`` is the median of the
rounds' ratios of wall time, ``CPU ratio`` that of the CPU seconds of all threads, which other work
on the machine hardly moves. Losses and gradients are compared in the first round.
"""

import argparse
import os
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk")]
MODEL = ROOT / ".data" / "models" / "SmolLM2-135M-Instruct"
SHAPES = [(1024, 128), (128, 128), (256, 128), (512, 128), (1024, 32), (1024, 512)]

# Threads that wait by spinning would count as work, and starve what shares the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from gpu_runtime.loop.data import sample_data  # noqa: E402
from gpu_runtime.loop.sample import Sample  # noqa: E402
from gpu_runtime.training.cpu.onednn_linear import linear_layers_use_onednn  # noqa: E402
from gpu_runtime.training.cpu.process import heap_keep  # noqa: E402
from gpu_runtime.training.losses import clipped_ratio  # noqa: E402
from gpu_runtime.training.policy import Policy  # noqa: E402
from gpu_runtime.training.rows.packing import pack, pack_row  # noqa: E402
from gpu_runtime.training.rows.tensors import RowTensors  # noqa: E402
from tinkerscript.processes import machine_share  # noqa: E402
from tinkerscript.wire.training.losses import ADVANTAGES, OLD  # noqa: E402

OLD_LOGPROB, BUDGET = -10.8, 8192


def group_make(prompt: int, completion: int, size: int, vocabulary: int) -> list[Sample]:
    """``size`` samples of random tokens with one prompt."""
    rng = random.Random(0)
    shared = tuple(rng.randrange(vocabulary) for _ in range(prompt))
    mask = (0,) * prompt + (1,) * completion
    old = (0.0,) * prompt + (OLD_LOGPROB,) * completion
    answers = [tuple(rng.randrange(vocabulary) for _ in range(completion)) for _ in range(size)]
    return [
        Sample(shared + answer, mask, old, advantage=(-1.0) ** i)
        for i, answer in enumerate(answers)
    ]


def packed(policy: Policy, samples: list[Sample]) -> float:
    """The trainer's way; the loss."""
    total = 0.0
    data = sample_data(samples)
    for indices in pack(data, BUDGET, range(len(samples))):
        row = RowTensors.of(pack_row(data, indices), data, torch.device("cpu"))
        ratio_K = torch.exp(policy(row) - row.loss_input(OLD))
        loss = clipped_ratio(ratio_K, row.loss_input(ADVANTAGES), 0.8, 1.2).sum()
        loss.backward()
        total += loss.item()
    return total


def padded(model: torch.nn.Module, samples: list[Sample], prompt: int, micro_batch: int) -> float:
    """A rectangle, logits of completions only; the loss."""
    total = 0.0
    for first in range(0, len(samples), micro_batch):
        part = samples[first : first + micro_batch]
        ids_BT = torch.tensor([sample.token_ids_T for sample in part])
        completion = ids_BT.shape[1] - prompt
        output = model(
            ids_BT,
            attention_mask=torch.ones_like(ids_BT),
            logits_to_keep=completion + 1,
            use_cache=False,
        )
        logprobs_BC = (
            output.logits[:, :-1].log_softmax(-1).gather(2, ids_BT[:, prompt:, None])[..., 0]
        )
        advantages_B1 = torch.tensor([sample.advantage for sample in part])[:, None]
        loss = clipped_ratio(torch.exp(logprobs_BC - OLD_LOGPROB), advantages_B1, 0.8, 1.2).sum()
        loss.backward()
        total += loss.item()
    return total


def timed(model: torch.nn.Module, call) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds of all threads, and the loss."""
    model.zero_grad(set_to_none=False)
    began, cpu_began = time.perf_counter(), time.process_time()
    loss = call()
    return time.perf_counter() - began, time.process_time() - cpu_began, loss


def compare(policy: Policy, plain: torch.nn.Module, shape: tuple[int, int], options) -> None:
    """Print one row of the table."""
    prompt, completion = shape
    samples = group_make(prompt, completion, options.group, plain.config.vocab_size)
    tree_s, flat_s, ratios, cpu_ratios = [], [], [], []
    for round_ in range(options.rounds):
        ours, ours_cpu, loss = timed(policy, lambda: packed(policy, samples))
        theirs, theirs_cpu, loss_padded = timed(
            plain, lambda: padded(plain, samples, prompt, options.micro_batch)
        )
        tree_s.append(ours)
        flat_s.append(theirs)
        ratios.append(theirs / ours)
        cpu_ratios.append(theirs_cpu / ours_cpu)
        if round_ == 0:
            pairs = list(zip(policy.model.parameters(), plain.parameters(), strict=True))
            error = sum((a.grad - b.grad).square().sum() for a, b in pairs).sqrt()
            error = float(error / sum(b.grad.square().sum() for _, b in pairs).sqrt())
            loss_error = abs(loss - loss_padded) / abs(loss_padded)
    data = sample_data(samples)
    nodes = sum(
        len(pack_row(data, row).tokens_N) for row in pack(data, BUDGET, range(len(samples)))
    )
    cells = [prompt, completion, options.group * (prompt + completion), nodes]
    cells += [f"{statistics.median(flat_s):.2f}", f"{statistics.median(tree_s):.2f}"]
    cells += [f"{statistics.median(ratios):.2f}", f"{statistics.median(cpu_ratios):.2f}"]
    cells += [f"{loss_error:.0e}", f"{error:.0e}"]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default=str(MODEL))
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--prompt", type=int)
    parser.add_argument("--completion", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument(
        "--same-products", action="store_true", help="oneDNN for the padded side too"
    )
    options = parser.parse_args()
    torch.set_num_threads(machine_share.cpus())
    heap_keep()  # as a trainer's process does; here for both sides
    policy = Policy.load(options.model, torch.float32)
    plain = AutoModelForCausalLM.from_pretrained(
        options.model, dtype=torch.float32, attn_implementation="sdpa"
    )
    for model in (policy, plain) if options.same_products else (policy,):
        linear_layers_use_onednn(model)
    shapes = [(options.prompt, options.completion)] if options.prompt else SHAPES
    for model in (policy, plain):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
    packed(policy, group_make(32, 8, 2, plain.config.vocab_size))  # libraries warm up
    padded(plain, group_make(32, 8, 2, plain.config.vocab_size), 32, 2)
    print(
        f"group {options.group}, {Path(options.model).name}, fp32, {torch.get_num_threads()} threads"
    )
    columns = [
        "prompt",
        "completion",
        "positions padded",
        "packed",
        "padded s",
        "packed s",
        "ratio",
        "CPU ratio",
    ]
    columns += ["loss error", "gradient error"]
    print("| " + " | ".join(columns) + " |")
    print("| --- " * len(columns) + "|")
    for shape in shapes:
        compare(policy, plain, shape, options)


if __name__ == "__main__":
    main()
