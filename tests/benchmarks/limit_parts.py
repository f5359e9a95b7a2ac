"""What a decoding step and a training step are made of, for limits.py: parts that are timed by
themselves.

Each part runs alone in this process, on as many threads as torch has, with weights of the model's
shapes: what is left of the measured step is everything between them. Best of the rounds, as
limits.py does.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_runtime.training.cpu.onednn_linear import OneDnnLinear
from gpu_runtime.training.policy import token_logprobs
from gpu_runtime.weights.packed_linear import linear_pack, panels_write

Parts = dict[str, float]  # seconds by part


@dataclass(frozen=True)
class Shapes:
    """``layer`` has the matrices of a layer [N, K] as the engine fuses them, ``head`` the output
    layer's.
    """

    layers: int
    layer: tuple[tuple[int, int], ...]
    head: tuple[int, int]

    @classmethod
    def of(cls, model: str) -> "Shapes":
        """Of a Hugging Face folder whose layers are a Llama's."""
        fields: dict[str, Any] = json.loads((Path(model) / "config.json").read_text())
        width, inner, heads = (
            fields["hidden_size"],
            fields["intermediate_size"],
            fields["num_attention_heads"],
        )
        size = fields.get("head_dim") or width // heads
        kept = fields.get("num_key_value_heads", heads)
        layer = (
            ((heads + 2 * kept) * size, width),
            (width, heads * size),
            (2 * inner, width),
            (width, inner),
        )
        return cls(fields["num_hidden_layers"], layer, (fields["vocab_size"], width))


@torch.no_grad()
def decoding_parts(shapes: Shapes, sequences: int, rounds: int) -> Parts:
    """Of one step: the products of all layers and of the head, with packed weights, and what
    sampling needs of the vocabulary.
    """
    layers = [[_packed(torch.randn(shape)) for shape in shapes.layer] for _ in range(shapes.layers)]
    head = _packed(torch.randn(shapes.head))
    inputs = [torch.randn(sequences, columns) for _, columns in shapes.layer]
    last, logits = torch.randn(sequences, shapes.head[1]), torch.randn(sequences, shapes.head[0])

    def layers_multiply() -> None:
        for layer in layers:
            for multiplied, rows in zip(layer, inputs, strict=True):
                multiplied(rows)

    def vocabulary() -> None:
        logprobs = logits.log_softmax(-1)
        (logprobs >= logprobs[:, :1]).sum(-1)

    return {
        "products of the layers": best_s(layers_multiply, rounds),
        "product of the head": best_s(lambda: head(last), rounds),
        "log-probabilities of the vocabulary": best_s(vocabulary, rounds),
    }


def training_parts(shapes: Shapes, tokens: int, rounds: int) -> Parts:
    """Of forward and backward: products of all layers (one is timed), and the head with its
    log-probabilities.
    """
    pairs = [
        (torch.randn(tokens, columns), torch.randn(rows, columns)) for rows, columns in shapes.layer
    ]
    hidden, head = torch.randn(tokens, shapes.head[1]), torch.randn(shapes.head)
    target = torch.randint(shapes.head[0], (tokens,))

    def layer() -> None:
        for inputs, weight in pairs:
            _both_ways(OneDnnLinear.apply(inputs.requires_grad_(), weight.requires_grad_(), None))

    def last() -> None:
        logits = OneDnnLinear.apply(hidden.requires_grad_(), head.requires_grad_(), None)
        _both_ways(token_logprobs(logits, target))

    return {
        "products of the layers": shapes.layers * best_s(layer, rounds),
        "head and log-probabilities": best_s(last, rounds),
    }


def parts_table(parts: Parts, whole_s: float, rest: str) -> str:
    """The rows of a table: each part in milliseconds, its share of ``whole_s``, and what is left,
    named ``rest``.
    """
    left = parts | {rest: whole_s - math.fsum(parts.values())}
    return "\n".join(
        f"| {name} | {part * 1e3:.1f} ms | {part / whole_s:.0%} |" for name, part in left.items()
    )


def best_s(work: Callable[[], object], rounds: int) -> float:
    """The shortest of ``rounds`` after a first one."""
    work()
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def _packed(weight_NK: Tensor) -> Callable[[Tensor], Tensor]:
    """The layer that an engine on this processor has: ours, or oneDNN's."""
    if (layer := linear_pack(tuple(weight_NK.shape), weight_NK.dtype)) is not None:
        panels_write(list(layer.jobs([weight_NK])))
        return lambda rows: layer(rows, weight_NK, None)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight_NK, None)  # noqa: SLF001 - operators of torch's
    return lambda rows: torch.ops.mkldnn._linear_pointwise(rows, packed, None, "none", [], "")  # noqa: SLF001


def _both_ways(output: Tensor) -> None:
    torch.autograd.backward(output, torch.ones_like(output))
