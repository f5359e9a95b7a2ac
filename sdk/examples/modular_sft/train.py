"""Trains one experiment: batches of replies, cross-entropy, Adam with a rate that falls to zero, a
checkpoint.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tinker
from conversations import Conversation, data_make
from experiments import Experiment
from tinker import types


def train(
    experiment: Experiment,
    training: tinker.TrainingClient,
    tokenizer: Any,
    splits: dict[str, list[Conversation]],
    folder: Path,
    max_steps: int | None,
) -> dict[str, Any]:
    """Writes a line of metrics.jsonl for each step; returns the checkpoint's paths, held-out losses
    and minutes.
    """
    data = {
        split: [
            each for chat in chats for each in data_make(tokenizer, chat, experiment.max_length)
        ]
        for split, chats in splits.items()
    }
    batches = batches_make(data["train"], experiment)[:max_steps]
    began, before = time.monotonic(), held_out_loss(training, data["test"])
    with (folder / "metrics.jsonl").open("w") as file, tracked(experiment) as track:
        for step, batch in enumerate(batches):
            rate = experiment.learning_rate * (1 - step / len(batches))
            done = training.forward_backward(batch, "cross_entropy")
            stepped = training.optim_step(types.AdamParams(learning_rate=rate))
            loss = mean_loss(batch, done.result())
            stepped.result()
            line = {
                "step": step,
                "loss": loss,
                "learning_rate": rate,
                "seconds": time.monotonic() - began,
            }
            file.write(json.dumps(line) + "\n")
            file.flush()
            track(line)
            print(
                f"  {experiment.name}: step {step + 1} of {len(batches)}, loss {loss:.3f}",
                flush=True,
            )
        after = held_out_loss(training, data["test"])
        track({"held_out_loss_before": before, "held_out_loss_after": after})
    return {
        "state": training.save_state("final").result().path,
        "sampler": training.save_weights_for_sampler("final").result().path,
        "steps": len(batches), "loss_before": before, "loss_after": after,
        "minutes": (time.monotonic() - began) / 60,
    }  # fmt: skip


def batches_make(data: list[types.Datum], experiment: Experiment) -> list[list[types.Datum]]:
    """All batches of all epochs, each epoch in an order of its own; the last of an epoch may be
    smaller.
    """
    if not data:
        raise SystemExit(
            f"{experiment.dataset} has no reply that fits in {experiment.max_length} tokens."
        )
    rng, batches = random.Random(experiment.seed), []
    for _ in range(experiment.epochs):
        order = rng.sample(data, len(data))
        batches += [
            order[at : at + experiment.batch_size]
            for at in range(0, len(order), experiment.batch_size)
        ]
    return batches


def held_out_loss(training: tinker.TrainingClient, data: list[types.Datum]) -> float:
    """Mean loss of a held-out token, in nats, under the present weights."""
    return mean_loss(data, training.forward(data, "cross_entropy").result())


def mean_loss(data: list[types.Datum], output: types.ForwardBackwardOutput) -> float:
    """-sum(weights_T * logprobs_T) / sum(weights_T), over all of ``data``."""
    weights = [each.loss_fn_inputs["weights"].to_numpy() for each in data]
    logprobs = [each["logprobs"].to_numpy() for each in output.loss_fn_outputs]
    total = sum(float(w @ p) for w, p in zip(weights, logprobs, strict=True))
    return -total / float(np.sum([w.sum() for w in weights]))


@contextmanager
def tracked(experiment: Experiment) -> Iterator[Any]:
    """Sends to Weights & Biases where WANDB_PROJECT is set, else nowhere."""
    if not os.environ.get("WANDB_PROJECT"):
        yield lambda line: None
        return
    import wandb

    with wandb.init(name=experiment.name, config=experiment.options()) as run:
        yield run.log
