"""What a call adds to the gradients of a model: all of it or nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn


@contextmanager
def gradients_added(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Backward passes in the block add to gradients of their own, which are added to the model's at
    its end.

    After an exception the model's are what they were.
    """
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    except BaseException:
        for parameter, gradient in zip(parameters, before, strict=True):
            parameter.grad = gradient
        raise
    for parameter, gradient in zip(parameters, before, strict=True):
        if gradient is not None:
            parameter.grad = gradient if parameter.grad is None else gradient.add_(parameter.grad)
