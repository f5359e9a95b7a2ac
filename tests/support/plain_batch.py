"""A downloaded batch computed again with plain torch and transformers, without any of our code."""

import base64
import zlib
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from support.plain_experts import blocks, by_hand


@dataclass
class PlainStep:
    """``loss`` and ``norm`` of GRPO's first step; the gaps are the largest to what engine and
    trainer recorded.
    """

    loss: float = 0.0
    norm: float = 0.0
    sampled_gap: float = 0.0
    raw_gap: float = 0.0
    trainer_gap: float = 0.0
    temperatures: set[float] = field(default_factory=set)  # of trained tokens
    bound_tokens: int = 0  # trained, under a grammar


def recompute(
    lines: list[dict[str, Any]], model_folder: Path, *, mixture: str | None = None
) -> PlainStep:
    """GRPO by its formula, one unpacked sample after the other, on the model that step 1 began
    with, of a ``mixture`` by the experts that the file has.
    """
    found = PlainStep()
    samples = [line for line in lines if line["kind"] == "sample" and line["in_gradient"]]
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    episodes = sum(sample["weight"] for sample in samples)
    total = torch.tensor(0.0)
    for sample in samples:
        ids, mask = (
            torch.tensor([sample["token_ids"]]),
            torch.tensor(sample["mask"][1:], dtype=torch.bool),
        )
        temperatures_T1 = torch.tensor(sample["temperatures"][1:])[:, None]
        with _experts_of(sample, model, mixture):
            logits = model(ids[:, :-1] if mixture else ids).logits[0, : len(mask)]
        raw = logits.log_softmax(-1).gather(1, ids[0, 1:, None])[mask, 0]
        bound = (logits / temperatures_T1).masked_fill(_forbidden(sample, logits), -torch.inf)
        logprobs = bound.log_softmax(-1).gather(1, ids[0, 1:, None])[mask, 0]
        old, advantage = (
            torch.tensor(sample["logprobs"][1:])[mask],
            torch.tensor(sample["advantages"][1:])[mask],
        )
        by_token = (
            -_correction(logprobs.detach() - old)
            * torch.exp(logprobs - logprobs.detach())
            * advantage
        )
        total = total + by_token.mean() * sample["weight"] / episodes
        found.sampled_gap = max(found.sampled_gap, (logprobs - old).abs().max().item())
        found.raw_gap = max(
            found.raw_gap, (raw - torch.tensor(sample["raw_logprobs"][1:])[mask]).abs().max().item()
        )
        trainer = torch.tensor(sample["trainer_logprobs"][1:])[mask]
        found.trainer_gap = max(found.trainer_gap, (logprobs - trainer).abs().max().item())
        found.temperatures |= set(temperatures_T1[mask, 0].tolist())
        found.bound_tokens += sum(number >= 0 for number in sample["allowed"])
    total.backward()
    found.loss = total.item()
    found.norm = torch.sqrt(
        sum(parameter.grad.square().sum() for parameter in model.parameters())
    ).item()
    return found


def _experts_of(sample: dict[str, Any], model: Any, mixture: str | None) -> Any:
    if mixture is None:
        return nullcontext()
    layers = len(blocks(model))
    rows = [base64.b64decode(each) if each else None for each in sample["experts"][1:]]
    width = next(len(row) for row in rows if row)
    numbers = np.array([[-1] * width if row is None else list(row) for row in rows])
    return by_hand(model, mixture, numbers.reshape(len(rows), layers, -1))


def _correction(gap: torch.Tensor) -> torch.Tensor:
    """The default of ``engine_correction``: truncated at 2, none within 1e-4 nats, left out beyond
    an eighth and 8.
    """
    weight = torch.exp(torch.where(gap.abs() <= 1e-4, torch.zeros_like(gap), gap))
    return weight.clamp(max=2.0) * (weight >= 0.125) * (weight <= 8.0)


def gap_after(lines: list[dict[str, Any]], model_folder: Path) -> float:
    """The largest to what the trainer recorded after the step, whose model is in
    ``model_folder``.
    """
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    samples = [line for line in lines if line["kind"] == "sample" and line["in_gradient"]]
    gaps = []
    for sample in samples:
        ids, mask = (
            torch.tensor([sample["token_ids"]]),
            torch.tensor(sample["mask"][1:], dtype=torch.bool),
        )
        with torch.no_grad():
            logits = model(ids).logits[0, :-1] / torch.tensor(sample["temperatures"][1:])[:, None]
        logits = logits.masked_fill(_forbidden(sample, logits), -torch.inf)
        logprobs = logits.log_softmax(-1).gather(1, ids[0, 1:, None])[mask, 0]
        gaps.append(
            (logprobs - torch.tensor(sample["trainer_logprobs_after"][1:])[mask]).abs().max().item()
        )
    return max(gaps)


def _forbidden(sample: dict[str, Any], logits_TV: torch.Tensor) -> torch.Tensor:
    """The ids that a grammar ruled out at each place."""
    sets = [zlib.decompress(base64.b64decode(each)) for each in sample["allowed_sets"]]
    forbidden_TV = torch.zeros_like(logits_TV, dtype=torch.bool)
    for t, number in enumerate(sample["allowed"][1:]):
        if number >= 0:
            bits = np.unpackbits(np.frombuffer(sets[number], np.uint8), bitorder="little")[
                : logits_TV.shape[1]
            ]
            forbidden_TV[t] = torch.from_numpy(bits == 0)
    return forbidden_TV
