"""Batches for trainers of tests: three groups of four answers, each group with its prompt."""

import random

from gpu_runtime.loop.sample import Sample


def batch(seed: int) -> list[Sample]:
    """The batch of this number, the same each time."""
    rng = random.Random(seed)
    samples = []
    for group in range(3):
        prompt = [rng.randrange(2, 90) for _ in range(12)]
        for _ in range(4):
            answer = [rng.randrange(2, 90) for _ in range(4)]
            samples.append(
                Sample(
                    tuple(prompt + answer),
                    (0,) * 12 + (1,) * 4,
                    (0.0,) * 12 + (-4.5,) * 4,
                    rng.uniform(-1, 1),
                    group=group,
                )  # fmt: skip
            )
    return samples
