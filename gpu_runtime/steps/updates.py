"""The updates of one step: usually one; with ``minibatches`` and ``epochs`` several over the same batch.

Several updates are off-policy after the first, so the ratio is taken against the policy before the step, whose
log-probabilities are computed once (PPO: Schulman et al. 2017, arXiv:1707.06347, algorithm 1). They end early once the
policy has moved further than ``kl_stop`` from it (Spinning Up's PPO does the same).
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_runtime.errors import EngineMismatch, StepRefused
from gpu_runtime.interfaces import Sample, Trainer
from gpu_runtime.training.logprob_mismatch import LogprobMismatchMonitor
from gpu_runtime.training.objective.token_scales import batch_scales
from tinkerscript.wire.config import SessionConfig

MEANS = ("loss", "entropy", "clip_fraction", "grad_norm")  # over the updates

# What a step measures that had nothing to learn from: 0 each.
NOTHING_LEARNED = ("loss", "kl_engine", "entropy", "clip_fraction", "tokens_trained", "tokens_computed", "grad_norm",
                   "learning_rate")  # fmt: skip


@dataclass(frozen=True)
class TrainedStep:
    """What a step measured, and ``logprobs_T`` of each of its samples under the weights before it; 0 where its mask is
    0. ``after_ST`` are those under the weights after it, which cost a forward pass of their own: of no sample unless
    the session has ``logprobs_after_step``."""

    metrics: dict[str, float]
    before_ST: Sequence[Sequence[float]]
    after_ST: Sequence[Sequence[float]] = ()


async def batch_train(
    trainer: Trainer,
    config: SessionConfig,
    samples: Sequence[Sample],
    step: int,
    staleness: int,
    entropy_coef: float,
    counted: bool = False,
) -> TrainedStep:
    """Every update of step ``step``. Raises StepRefused, after which earlier updates stand.

    One that is ``counted`` was done before and is done again: its tokens were compared with the engine's then, by the
    bound of that day, and later steps were sampled from what came of it. What the journal has of it stays as it was, so
    nothing is computed after it.
    """
    kl_engine: float | None = None  # before the first update: later the policy has moved on its own
    before: Sequence[Sequence[float]] = ()
    if is_many := config.minibatches * config.epochs > 1:
        before = await trainer.logprobs(samples)
        samples = [replace(sample, before_T=tuple(of)) for sample, of in zip(samples, before, strict=True)]
        kl_engine = kl_from_engine(samples)
    done: list[dict[str, float]] = []
    for part in update_parts(samples, config, step):
        found = await trainer.forward_backward(part, entropy_coef, batch_scales(part, config))
        kl_engine = found["kl_engine"] if kl_engine is None else kl_engine
        found["kl_engine"] = kl_engine
        broken = [f"{name} is {value}" for name, value in found.items() if not math.isfinite(value)]
        proven = counted or bool(done)
        gap = None if proven else LogprobMismatchMonitor(trainer.dtype).refusal(found, samples, staleness)
        is_far = bool(done) and config.kl_stop is not None and found["kl_before"] > config.kl_stop
        if broken or gap or is_far:
            await trainer.drop_gradient()
        if broken:
            raise StepRefused(f"step {step}: {', '.join(broken)}")
        if gap:
            raise EngineMismatch(f"step {step}: {gap}", found["kl_engine"])
        if is_far:
            break
        if not is_many:
            before = await trainer.passed_logprobs()
        done.append(found | await trainer.optim_step(step))
    means = {name: math.fsum(each[name] for each in done) / len(done) for name in MEANS}
    tokens = {name: sum(each[name] for each in done) for name in ("tokens_trained", "tokens_computed")}
    after = await trainer.logprobs(samples) if config.logprobs_after_step and not counted else ()
    return TrainedStep(done[-1] | means | tokens | {"updates": float(len(done))}, before, after)


def update_parts(samples: Sequence[Sample], config: SessionConfig, step: int) -> list[list[Sample]]:
    """The samples of each update: every epoch deals the groups out anew, in an order that the seed and the step give.

    Groups stay whole, since their prefixes are computed once. Fewer groups than ``minibatches`` make fewer parts.
    """
    groups = list(dict.fromkeys(sample.group for sample in samples))
    parts = min(config.minibatches, len(groups))
    if parts == 1:
        return [list(samples)] * config.epochs
    order = random.Random(f"{config.seed} {step}")
    dealt = []
    for _ in range(config.epochs):
        shuffled = order.sample(groups, len(groups))
        hands = [set(shuffled[part::parts]) for part in range(parts)]
        dealt += [[sample for sample in samples if sample.group in hand] for hand in hands]
    return dealt


def kl_from_engine(samples: Sequence[Sample]) -> float:
    """Mean k3 KL from the engine's record to ``before_T``, over trained tokens that no grammar narrowed."""
    gaps = [
        before - engine
        for sample in samples
        for t, (engine, before) in enumerate(zip(sample.logprobs_T, sample.before_T or (), strict=True))
        if sample.mask_T[t] and t > 0 and not sample.narrowed_at(t)
    ]
    return math.fsum(math.expm1(gap) - gap for gap in gaps) / max(1, len(gaps))
