"""Random forests in depth-first order, as packed rows of a training step are."""

import random

import torch
from hypothesis import strategies as st

from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.rows.packing import pack_row


@st.composite
def ends(draw) -> torch.Tensor:
    """``end_N`` of a forest: one past the subtree of each node."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    lists = [
        [rng.randrange(3) for _ in range(rng.randrange(1, 12))]
        for _ in range(draw(st.integers(1, 7)))
    ]
    samples = [
        Sample((*ids, 0), (0,) * (len(ids) + 1), (0.0,) * (len(ids) + 1), 0.0) for ids in lists
    ]
    return torch.from_numpy(pack_row(sample_data(samples), range(len(samples))).end_N)
