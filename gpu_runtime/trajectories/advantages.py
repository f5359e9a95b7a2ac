"""The advantages with which a step trained its episodes, computed again from its batch."""

from gpu_runtime.loop.batching import Batch, batch_advantages
from tinkerscript.wire.config import SessionConfig


def step_advantages(batch: Batch | None, config: SessionConfig) -> dict[str, dict[str, float]]:
    """By episode: the advantage of each call. Empty for a step without a batch."""
    if batch is None:
        return {}
    return {
        episode.record.id: advantages
        for group, advantages_G in zip(batch.groups, batch_advantages(batch, config), strict=True)
        for episode, advantages in zip(group.episodes, advantages_G, strict=True)
    }
