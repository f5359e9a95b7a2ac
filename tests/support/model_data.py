"""Data for the many-model trainer and the losses of it written out once more, one token at a time
in float64.
"""

import random

import numpy as np
import torch

from gpu_runtime.model_interfaces import Datum
from gpu_runtime.training.losses import FORMULAS
from support.plain_losses import SESSION_LOSSES, Token, plain_token
from tinkerscript.wire.training.losses import CLIENT_LOSSES, HIGH, LOW, OLD, RATIO_MASK

VOCABULARY = 98
RATIO_LOSSES = tuple(name for name, loss in CLIENT_LOSSES.items() if loss.has_ratio)
# Of each setting a value under which the data reach both sides of a bound; of a loss, other ones.
VALUES = {LOW: 0.9, HIGH: 1.15, "beta": 0.3, "kl_coeff": 0.2}
OWN_VALUES = {"gspo": {LOW: 0.95, HIGH: 1.02}}
SETTINGS = {
    name: {key: VALUES[key] for key in loss.settings} | OWN_VALUES.get(name, {})
    for name, loss in CLIENT_LOSSES.items()
}
# Of each loss with a ratio that a session and a client can both have, by the session's name of it
# the client's: those that are PPO's ratio and clip differ in their averages alone.
SHARED = {
    name: client
    for name in SESSION_LOSSES
    for client in RATIO_LOSSES
    if FORMULAS[client] is FORMULAS[name]
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
        if loss not in RATIO_LOSSES:
            inputs["weights"] = generator.normal(size=shape).astype(np.float32)
        else:
            inputs["logprobs"] = generator.uniform(-4.9, -4.2, shape).astype(np.float32)
            inputs["advantages"] = generator.normal(size=shape).astype(np.float32)
            inputs["advantages"][: len(tokens) // 4] = 0.0
        if RATIO_MASK in CLIENT_LOSSES[loss].optional:
            inputs[RATIO_MASK] = (generator.random(shape) < 0.7).astype(np.float32)
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
    ones = [1.0] * len(now)
    if name in RATIO_LOSSES:
        old, advantages = tensors[OLD], tensors["advantages"]
        weights = tensors.get("weights", ones)
    else:
        old, advantages, weights = stopped, tensors["weights"], ones
    masked = [k for k, m in enumerate(tensors.get(RATIO_MASK, ones)) if m]
    gap = sum(stopped[k] - old[k] for k in masked) / max(1, len(masked))
    total = 0.0
    for t, x in enumerate(now):
        token = Token(x, stopped[t], old[t], advantages[t], settings, gap)
        total = total + plain_token(name, token) * weights[t]
    return total


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
