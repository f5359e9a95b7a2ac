"""The updates of one step: usually one; with ``minibatches`` and ``epochs`` several over the same
batch.

Several updates are off-policy after the first, so the ratio is taken against the policy before the
step, whose log-probabilities are computed once (PPO: Schulman et al. 2017, arXiv:1707.06347,
algorithm 1): those of the first update's part by its own pass, those of the others by one before
it, part by part, since rows that are packed alike round alike. The first update's ratio is to
itself, which is 1 whatever two passes round. They end early once the policy has moved further than
``kl_stop`` from it (Spinning Up's PPO does the same).
"""

import asyncio
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_runtime.errors import EngineMismatch, StepRefused
from gpu_runtime.loop.data import loop_data, sample_data, values_by_token
from gpu_runtime.loop.logprob_mismatch import EngineGaps, mismatch_refusal
from gpu_runtime.loop.sample import Sample
from gpu_runtime.loop.step_options import loss_settings, step_adam
from gpu_runtime.model_interfaces import Trainer
from tinkerscript.wire.config import SessionConfig

MEANS = ("loss", "entropy", "clip_fraction", "grad_norm")  # over the updates
TOKENS = ("tokens_trained", "tokens_computed", "tokens_masked", "tokens_repeated")  # sums over them

# What a step measures that had nothing to learn from: 0 each.
NOTHING_LEARNED = (
    "loss",
    "kl_engine",
    "entropy",
    "clip_fraction",
    "tokens_trained",
    "tokens_computed",
    "tokens_repeated",
    "grad_norm",
    "learning_rate",
)


@dataclass(frozen=True)
class TrainedStep:
    """What a step measured, and ``logprobs_T`` of each of its samples under the weights before it; 0 where its mask is
    0. ``after_ST`` are those under the weights after it, which cost a forward pass of their own: of no sample unless
    the session has ``logprobs_after_step``."""

    metrics: dict[str, Any]
    before_ST: Sequence[Sequence[float]]
    after_ST: Sequence[Sequence[float]] = ()


async def batch_train(
    trainer: Trainer,
    config: SessionConfig,
    samples: Sequence[Sample],
    step: int,
    staleness: int,
    counted: bool = False,
) -> TrainedStep:
    """Every update of step ``step``, whose options are ``config``. Raises StepRefused, after which
    earlier updates stand.

    One that is ``counted`` was done before and is done again: its tokens were compared with the
    engine's then, by the bound of that day, and later steps were sampled from what came of it. What
    the journal has of it stays as it was, so nothing is computed after it.
    """
    adam, settings = await step_adam(trainer, config, step), loss_settings(config)
    parts = update_parts(samples, config, step)
    # of the first epoch, which takes each sample once
    others = parts[1 : len(parts) // config.epochs]
    before_of: dict[int, Sequence[float]] = {}
    for part in others:
        before_of |= _by_sample(part, await samples_logprobs(trainer, config, part))
    before: Sequence[Sequence[float]] = ()
    # of engine and trainer, before the first update: later the policy has moved on its own
    told: dict[str, Any] = {}
    done: list[dict[str, float]] = []
    while parts:
        part, *parts = parts
        data = await asyncio.to_thread(loop_data, part, config)
        result = await trainer.forward_backward(data, config.loss, settings)
        found, gap = result.metrics, None
        if not done:
            passed = values_by_token([each["logprobs"] for each in result.outputs])
            before_of |= _by_sample(part, passed)
            before = [before_of[id(sample)] for sample in samples]
            gaps = await asyncio.to_thread(EngineGaps.of, samples, before)
            told = {"kl_engine": gaps.kl if others else found["kl_engine"]} | gaps.metrics()
            if not counted:
                gap = mismatch_refusal(told["kl_engine"], gaps, trainer.dtype, staleness)
            moved = [
                replace(sample, before_T=tuple(of))
                for sample, of in zip(samples, before, strict=True)
            ]
            parts = update_parts(moved, config, step)[1:]
        found["kl_engine"] = told["kl_engine"]
        broken = [f"{name} is {value}" for name, value in found.items() if not math.isfinite(value)]
        is_far = bool(done) and config.kl_stop is not None and found["kl_before"] > config.kl_stop
        if broken or gap or is_far:
            await trainer.drop_gradient()
        if broken:
            raise StepRefused(f"step {step}: {', '.join(broken)}")
        if gap:
            raise EngineMismatch(f"step {step}: {gap}", found["kl_engine"])
        if is_far:
            break
        stepped = await trainer.optim_step(adam)
        done.append(found | stepped | {"learning_rate": adam.learning_rate})
    means = {name: math.fsum(each[name] for each in done) / len(done) for name in MEANS}
    tokens = {name: sum(each[name] for each in done) for name in TOKENS}
    is_asked = config.logprobs_after_step and not counted
    after = await samples_logprobs(trainer, config, samples) if is_asked else ()
    return TrainedStep(
        done[-1] | told | means | tokens | {"updates": float(len(done))}, before, after
    )


def _by_sample(
    part: Sequence[Sample], values_ST: Sequence[Sequence[float]]
) -> dict[int, Sequence[float]]:
    return {id(sample): of for sample, of in zip(part, values_ST, strict=True)}


async def samples_logprobs(
    trainer: Trainer, config: SessionConfig, samples: Sequence[Sample], *, reference: bool = False
) -> list[list[float]]:
    """``logprobs_T`` of each sample under the current weights or the reference's; 0 where its mask
    is 0.
    """
    data = await asyncio.to_thread(sample_data, samples, replays=config.routing_replay)
    return values_by_token(await trainer.logprobs(data, reference))


def update_parts(samples: Sequence[Sample], config: SessionConfig, step: int) -> list[list[Sample]]:
    """The samples of each update: the groups are dealt out once, and every epoch takes the parts in
    an order of its own, all as the seed and the step give it.

    Dealt out anew, rows would round otherwise than the policy before the step did: in bfloat16 by
    0.02 nats a token, which moves half of the sequences out of GSPO's clip. Groups stay whole,
    since their prefixes are computed once. Fewer groups than ``minibatches`` make fewer parts.
    """
    groups = list(dict.fromkeys(sample.group for sample in samples))
    parts = min(config.minibatches, len(groups))
    if parts == 1:
        return [list(samples)] * config.epochs
    order = random.Random(f"{config.seed} {step}")
    shuffled = order.sample(groups, len(groups))
    hands = [set(shuffled[part::parts]) for part in range(parts)]
    dealt = [[sample for sample in samples if sample.group in hand] for hand in hands]
    later = [part for _ in range(config.epochs - 1) for part in order.sample(dealt, parts)]
    return dealt + later
