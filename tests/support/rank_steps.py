"""A step of the real trainer as the managed loop asks for it, by the session's schedule."""

from gpu_runtime.loop.adam import loop_adam, step_adam
from gpu_runtime.training.ranks import TrainerRanks


async def optim_step(trainer: TrainerRanks, step: int) -> dict[str, float]:
    """Of ranks in processes of their own."""
    return await trainer.optim_step(await step_adam(trainer, trainer.spec.config, step))


def optim_step_here(trainer, step: int, **changed: float) -> dict[str, float]:
    """Of a RankTrainer in this process; ``changed`` are options that the session has changed."""
    return trainer.optim_step(loop_adam(trainer.config.model_copy(update=changed), step))
