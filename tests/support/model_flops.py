"""Floating-point operations of a step, counted from a model's shape and the rows that were
computed; peaks of devices.

Model FLOPs: 6 for each weight of a matrix and position that it meets (the head meets trained
positions alone) and 12 for each pair of positions that attends, head size and head. Recomputation
is not counted.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.rows.packing import pack, pack_row

Shape = dict[str, int]

# TFLOP/s of dense bfloat16, from NVIDIA's data sheets. The first name that a device's contains.
PEAKS = (
    ("H100 NVL", 835.0),
    ("H100 PCIe", 756.0),
    ("H100", 989.0),
    ("H200 NVL", 835.0),
    ("H200", 989.0),
    ("A100", 312.0),
)


def peak_tflops(device: str) -> float | None:
    """Of the device of this name; None where it is not known here."""
    return next((peak for name, peak in PEAKS if name in device), None)


def shape_of(model: Path) -> Shape:
    """The sizes that are counted with, of a dense model's folder."""
    fields = json.loads((model / "config.json").read_text())
    heads = fields["num_attention_heads"]
    sizes = {
        name: fields[name]
        for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size")
    }
    return sizes | {
        "num_attention_heads": heads,
        "num_key_value_heads": fields.get("num_key_value_heads") or heads,
        "head_dim": fields.get("head_dim") or fields["hidden_size"] // heads,
    }


def body_weights(shape: Shape) -> int:
    """Of the matrices of all layers."""
    hidden, heads, size = shape["hidden_size"], shape["num_attention_heads"], shape["head_dim"]
    attention = 2 * hidden * heads * size + 2 * hidden * shape["num_key_value_heads"] * size
    return shape["num_hidden_layers"] * (attention + 3 * hidden * shape["intermediate_size"])


def step_flops(samples: Sequence[Sample], row_tokens: int, shape: Shape) -> float:
    """Of one forward and backward pass over ``samples``, packed to ``row_tokens`` a row."""
    data = sample_data(samples)
    packed = [pack_row(data, row) for row in pack(data, row_tokens, range(len(samples)))]
    nodes, trained = (
        sum(len(row.tokens_N) for row in packed),
        sum(len(row.source_K) for row in packed),
    )
    pairs = sum(int((row.depth_N + 1).sum()) for row in packed)
    head = 6.0 * shape["hidden_size"] * shape["vocab_size"] * trained
    heads = shape["num_attention_heads"] * shape["head_dim"]
    return (
        6.0 * body_weights(shape) * nodes + head + 12.0 * shape["num_hidden_layers"] * heads * pairs
    )


def prime_rl_flops(tokens: int, shape: Shape) -> float:
    """Of one token in a row of ``tokens``, as prime-rl counts (_get_num_flop_per_token of its
    PerfCounter).

    Every position meets the head, and attends to the whole row, by heads that share the hidden size
    out.
    """
    weights = body_weights(shape) + shape["vocab_size"] * shape["hidden_size"]
    return 6.0 * weights + 12.0 * shape["num_hidden_layers"] * shape["hidden_size"] * tokens
