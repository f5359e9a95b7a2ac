"""Data for the many-model trainer and the losses of it written out once more, one token at a time
in float64.
"""

import math
import random

import numpy as np
import torch

from gpu_runtime.model_interfaces import Datum
from tinkerscript.wire.training.losses import CLIENT_LOSSES

VOCABULARY = 98
RATIO_LOSSES = tuple(name for name, loss in CLIENT_LOSSES.items() if loss.has_ratio)
SETTINGS = {
    "importance_sampling": {},
    "ppo": {"clip_low_threshold": 0.9, "clip_high_threshold": 1.15},
    "cispo": {"clip_low_threshold": 0.7, "clip_high_threshold": 1.2},
    "dro": {"beta": 0.3},
    "gspo": {"clip_low_threshold": 0.95, "clip_high_threshold": 1.02},
    "stable_reinforce": {"clip_high_threshold": 1.1, "kl_coeff": 0.2},
    "cross_entropy": {},
}


def sequences(rng: random.Random) -> list[list[int]]:
    """Seven: three share 20 tokens, two of them 26, one is a prefix of another, two are equal, one
    stands alone.
    """
    prompt = [rng.randrange(2, 90) for _ in range(20)]
    longer = prompt + [rng.randrange(2, 90) for _ in range(6)]
    tails = [[rng.randrange(2, 90) for _ in range(n)] for n in (5, 9, 7, 31)]
    alone = tails[3]
    return [
        longer + tails[0],
        alone,
        prompt + tails[2],
        longer + tails[1],
        alone[:12],
        prompt + tails[2],
        [7],
    ]


def drawn_data(loss: str, *, seed: int = 5, targets: int | None = None) -> list[Datum]:
    """Data for ``loss``; with ``targets``, [N, K] of them. Log-probabilities at sampling lie near
    the model's own.
    """
    rng = random.Random(seed)
    data = []
    for tokens in sequences(rng):
        shape = (len(tokens),) if targets is None else (len(tokens), targets)
        generator = np.random.default_rng(rng.randrange(2**31))
        inputs = {"target_tokens": generator.integers(2, 90, shape)}
        if loss == "cross_entropy":
            inputs["weights"] = generator.normal(size=shape).astype(np.float32)
        else:
            inputs["logprobs"] = generator.uniform(-4.9, -4.2, shape).astype(np.float32)
            inputs["advantages"] = generator.normal(size=shape).astype(np.float32)
            inputs["advantages"][: len(tokens) // 4] = 0.0
        if loss == "gspo":
            inputs["sequence_ratio_mask"] = (generator.random(shape) < 0.7).astype(np.float32)
        data.append(Datum(np.array(tokens), inputs))
    return data


def plain_loss(
    name: str, settings: dict, now: list, datum: Datum, stopped: list[float] | None = None
):
    """The sum of a loss over the tokens of one datum. ``now`` are its log-probabilities, flat;
    numbers or tensors.

    What carries no gradient is computed from ``stopped``, their values.
    """
    stopped = (
        [x.item() if isinstance(x, torch.Tensor) else x for x in now]
        if stopped is None
        else stopped
    )
    tensors = {key: values.reshape(-1).tolist() for key, values in datum.loss_inputs.items()}
    total = 0.0
    for t, x in enumerate(now):
        if name == "cross_entropy":
            total = total - x * tensors["weights"][t]
            continue
        old, advantage = tensors["logprobs"][t], tensors["advantages"][t]
        low, high = (
            settings.get("clip_low_threshold", 0.0),
            settings.get("clip_high_threshold", math.inf),
        )
        ratio = _exp(x - old)
        if name == "gspo":
            masked = [
                k for k, m in enumerate(tensors.get("sequence_ratio_mask", [1] * len(now))) if m
            ]
            mean = sum(stopped[k] - tensors["logprobs"][k] for k in masked) / max(1, len(masked))
            ratio = _exp(mean + x - stopped[t])
        if name == "importance_sampling":
            loss = -ratio * advantage
        elif name in ("ppo", "gspo"):
            clipped = low if ratio < low else high if ratio > high else ratio
            loss = -min(ratio * advantage, clipped * advantage)
        elif name == "cispo":
            loss = -min(max(math.exp(stopped[t] - old), low), high) * advantage * x
        elif name == "dro":
            loss = -(x * advantage - 0.5 * settings["beta"] * (x - old) ** 2)
        else:
            weight = min(math.exp(stopped[t] - old), high)
            loss = -weight * advantage * x + settings["kl_coeff"] / 2 * (x - old) ** 2
        total = total + loss * tensors.get("weights", [1.0] * len(now))[t]
    return total


def _exp(x):
    return torch.exp(x) if isinstance(x, torch.Tensor) else math.exp(x)


def plain_logprobs(model, datum: Datum) -> torch.Tensor:
    """Of a datum's targets, in their shape, by the model's own forward on the datum alone."""
    logits_NV = model(torch.tensor(datum.token_ids_N)[None]).logits[0]
    targets = torch.tensor(datum.loss_inputs["target_tokens"])
    by_token = targets[:, None] if targets.ndim == 1 else targets
    return torch.log_softmax(logits_NV, dim=-1).gather(1, by_token).reshape(targets.shape)


def gradient_of(model) -> dict[str, torch.Tensor]:
    """The gradient of each trained parameter of a model of transformers or of peft, under the
    base's names.
    """
    named = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    return {
        name.removeprefix("base_model.model.").replace(".default", ""): grad
        for name, grad in named.items()
    }
