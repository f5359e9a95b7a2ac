"""A loss of one's own, computed by the server and by the client: both models make the same steps.

Usage: ``own_loss.py model_name=... log_path=...``, as the recipes of the cookbook, with TINKER_BASE_URL and
TINKER_API_KEY set. The function picks tokens by masks and has constants of its surroundings. Each line of metrics is a
step; one that differs between the two ends the program with status 1.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tinker
import torch
from tinker import types

STEPS, FLOOR, SHARE = 2, -4.0, 0.25
RANKS = {"logprobs": 1, "weights": 1}


def own_loss(logprobs: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
    """Cross-entropy of the tokens that have a weight, and more of those that are far off."""
    counted = logprobs[weights > 0]
    far = logprobs[logprobs < FLOOR]
    loss = -counted.sum() / math.sqrt(logprobs.shape[0]) + SHARE * (far - FLOOR).square().sum()
    return loss, {"custom/far:sum": (logprobs < FLOOR).float().sum()}


def here(
    data: list[types.Datum], logprobs_list: list[torch.Tensor]
) -> tuple[torch.Tensor, dict[str, float]]:  # fmt: skip
    """The same as a function of all data, which the client computes itself."""
    losses, far = [], 0.0
    for datum, logprobs in zip(data, logprobs_list, strict=True):
        loss, metrics = own_loss(logprobs, datum.loss_fn_inputs["weights"].to_torch())
        losses.append(loss)
        far += metrics["custom/far:sum"].item()
    return torch.stack(losses).sum(), {"custom/far:sum": far}


def drawn(length: int) -> types.Datum:
    rng = np.random.default_rng(length)
    tokens = rng.integers(5, 60, length + 1)
    weights = (rng.random(length) < 0.7).astype(np.float32)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1].tolist()),
        loss_fn_inputs={
            "target_tokens": types.TensorData.from_numpy(tokens[1:].astype(np.int64)),
            "weights": types.TensorData.from_numpy(weights),
        },
    )


def steps_make(model: tinker.TrainingClient, loss: object) -> list[dict[str, float]]:
    """What each step said: its loss, its metric, and the norm of its gradient."""
    said = []
    for _ in range(STEPS):
        done = model.forward_backward_custom([drawn(9), drawn(30)], loss).result(timeout=300)
        step = model.optim_step(types.AdamParams(learning_rate=1e-2)).result(timeout=300)
        kept = {name: done.metrics[name] for name in ("loss:sum", "custom/far:sum")}
        said.append(kept | {"grad_norm": step.metrics["grad_norm"]})
    return said


def main(arguments: Sequence[str]) -> int:
    options = dict(each.split("=", 1) for each in arguments)
    with tinker.ServiceClient() as service:
        handle = service.create_custom_loss(own_loss, input_ranks=RANKS).result(timeout=60)
        assert handle.loss_id, "the server took the loss"
        models = [service.create_lora_training_client(options["model_name"], rank=8, seed=7) for _ in range(2)]
        there, local = (steps_make(model, loss) for model, loss in zip(models, (handle, here), strict=True))
    folder = Path(options["log_path"])
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"step": step} | metrics) + "\n" for step, metrics in enumerate(there)]
    (folder / "metrics.jsonl").write_text("".join(lines))
    print(json.dumps({"server": there, "client": local}, indent=1))
    same = all(
        math.isclose(mine[name], theirs[name], rel_tol=1e-4)
        for mine, theirs in zip(there, local, strict=True)
        for name in mine
    )
    return int(not same)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
