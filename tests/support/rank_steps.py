"""A step of the real trainer as the managed loop asks for it, by the session's options."""

from collections.abc import Sequence

from gpu_runtime.loop.data import loop_data, sample_data, values_by_token
from gpu_runtime.loop.sample import Sample
from gpu_runtime.loop.step_options import loop_adam, loss_settings, step_adam
from gpu_runtime.steps.updates import samples_logprobs
from gpu_runtime.training.ranks import TrainerRanks
from tinkerscript.wire.training.defaults import config_resolve


async def gradient(
    trainer: TrainerRanks, samples: Sequence[Sample], **changed: float
) -> dict[str, float]:
    """Of ranks in processes of their own: the metrics of a ``forward_backward``; ``changed`` are
    options that this step has otherwise.
    """
    return (await trainer.forward_backward(*_call(trainer, samples, changed))).metrics


async def passed_over(
    trainer: TrainerRanks, samples: Sequence[Sample], **changed: float
) -> tuple[dict[str, float], list[list[float]]]:
    """As ``gradient``, and the log-probabilities of its own forward pass for each token."""
    result = await trainer.forward_backward(*_call(trainer, samples, changed))
    return result.metrics, values_by_token([each["logprobs"] for each in result.outputs])


def gradient_here(trainer, samples: Sequence[Sample], **changed: float) -> dict[str, float]:
    """Of a RankTrainer in this process."""
    return trainer.forward_backward(*_call(trainer, samples, changed)).metrics


def _call(trainer, samples: Sequence[Sample], changed: dict[str, float]) -> tuple:
    config = trainer.spec.config
    return loop_data(samples, config), config.loss, {**loss_settings(config), **changed}


async def logprobs(
    trainer: TrainerRanks, samples: Sequence[Sample], *, reference: bool = False
) -> list[list[float]]:
    """Of ranks in processes of their own, for each token."""
    return await samples_logprobs(trainer, trainer.spec.config, samples, reference=reference)


def logprobs_here(
    trainer, samples: Sequence[Sample], *, reference: bool = False
) -> list[list[float]]:
    """Of a RankTrainer in this process."""
    data = sample_data(samples, replays=trainer.config.routing_replay)
    return values_by_token(trainer.logprobs(data, reference))


async def optim_step(trainer: TrainerRanks, step: int) -> dict[str, float]:
    """Of ranks in processes of their own."""
    return await trainer.optim_step(await step_adam(trainer, trainer.spec.config, step))


def optim_step_here(trainer, step: int, **changed: float) -> dict[str, float]:
    """Of a RankTrainer in this process; ``changed`` are options that the session has changed."""
    config = config_resolve(trainer.config.model_copy(update=changed), trainer.parameters())
    return trainer.optim_step(loop_adam(config, step))
