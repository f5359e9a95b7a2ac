"""What ``x[mask]`` costs in a loss that a client wrote is known before memory is spent."""

import numpy as np
import pytest
import torch

from gpu_runtime.model_interfaces import Datum, InvalidTrainingInput
from gpu_runtime.training.models.custom_loss import custom_find
from gpu_runtime.training.models.masked_index import index_numbers
from support.loss_graphs import traced
from tinkerscript.wire.tinker import custom_loss as wire

MANY = 1 << 20


def with_dimensions(count: int):
    """A mask of ``count`` dimensions, one of a million places: what it picks there has an index of all of them."""

    def spread(logprobs):
        numbers = logprobs.sum().expand(*[1] * (count - 1), MANY) + 0.0
        return numbers[numbers < 0].sum() / MANY, {}

    return spread


def computed(loss) -> float:
    packed = wire.loss_pack(wire.CustomLoss.model_validate(traced(loss, logprobs=1)))
    found = custom_find({"loss_id": packed})
    data = [Datum(np.array([1, 2]), {"target_tokens": np.array([2, 3])})]
    found.check(data)
    total, _ = found.of_row(torch.tensor([-1.0, -2.0]), np.array([0, 1]), [0], data)
    return float(total)


def test_the_indices_of_a_mask_of_many_dimensions_count():
    assert computed(with_dimensions(2)) == pytest.approx(-3.0)
    with pytest.raises(InvalidTrainingInput, match="node 'getitem'.* more than 67108864 numbers"):
        computed(with_dimensions(40))


def test_an_index_is_counted_for_each_number_that_is_picked():
    mask = torch.tensor([[True, False], [True, True]])
    assert index_numbers(mask) * 4 == sum(index.nbytes for index in mask.nonzero(as_tuple=True))
