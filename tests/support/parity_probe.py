"""A real engine and a real trainer take turns, and their log-probabilities are compared with those
of transformers.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from gpu_runtime.interfaces import SamplingOptions
from gpu_runtime.loop.sample import Sample
from support.engine_loop import Loop, loop_open
from support.published_weights import published_weights
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

PROMPTS = [(5, 9, 30, 41), (60, 61, 62), tuple(range(3, 60))]
TEMPERATURES = (0.3, 1.0, 2.0)  # of the steps, and of what is sampled after the last


async def take_turns(folder: Path, options: dict[str, Any]) -> dict[str, list[float]]:
    """Three steps at three temperatures.

    ``gaps``: before the first hand-over and after each, the largest difference between a
    log-probability that the engine recorded and that of transformers on the trainer's weights.
    ``kls``: the trainer's own measure of it. ``moved``: how far each step took the weights.
    """
    base = str(tiny_model_make(folder / "model"))
    config = SessionConfig(max_context_length=128, grpo_n=4, learning_rate=5e-3, **options)
    found: dict[str, list[float]] = {"gaps": [], "kls": [], "moved": []}
    async with loop_open(base, config, "cpu") as loop:
        weights = load_file(folder / "model" / "model.safetensors")
        for step, temperature in enumerate(TEMPERATURES, start=1):
            options = SamplingOptions(max_tokens=8, temperature=temperature)
            samples, _ = await loop.rollout(PROMPTS, options, lambda text: len(set(text)))
            found["gaps"].append(gap(base, weights, samples))
            found["kls"].append((await loop.train(samples, step))["kl_engine"])
            before, weights = weights, await handed_over(loop, step)
            found["moved"].append(
                max((weights[name] - before[name]).abs().max().item() for name in before)
            )
        for temperature in TEMPERATURES:
            options = SamplingOptions(max_tokens=8, temperature=temperature)
            samples, _ = await loop.rollout(PROMPTS, options, lambda text: 0.0)
            found["gaps"].append(gap(base, weights, samples))
    return found


async def handed_over(loop: Loop, step: int) -> dict[str, torch.Tensor]:
    await loop.hand_over(step)
    return published_weights(loop.handover)


def gap(base: str, weights: dict[str, torch.Tensor], samples: list[Sample]) -> float:
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and missing == ["lm_head.weight"], "tied to the embeddings"
    largest = 0.0
    for sample in samples:
        ids, mask = torch.tensor(sample.token_ids_T), torch.tensor(sample.mask_T[1:]) == 1
        with torch.no_grad():
            temperature_T1 = torch.tensor(sample.temperatures_T[1:])[:, None]
            logprobs_TV = (model(ids[None]).logits[0, :-1] / temperature_T1).log_softmax(-1)
        own = logprobs_TV.gather(1, ids[1:, None])[:, 0][mask]
        largest = max(largest, (own - torch.tensor(sample.logprobs_T[1:])[mask]).abs().max().item())
    return largest
