"""The advantages with which a step trained its episodes, computed again from its batch."""

from gpu_runtime.episodes.batches import Batches
from gpu_runtime.training.batching import batch_advantages
from tinkerscript.wire.config import SessionConfig


def step_advantages(batches: Batches, step: int, config: SessionConfig) -> dict[str, dict[str, float]]:
    """By episode: the advantage of each call. Empty for a step without a batch. Reads the disk: call it in a thread."""
    kept = batches.find(str(step))
    if kept is None:
        return {}
    return {
        episode.record.id: advantages
        for group, advantages_G in zip(kept.batch.groups, batch_advantages(kept.batch, config), strict=True)
        for episode, advantages in zip(group.episodes, advantages_G, strict=True)
    }
