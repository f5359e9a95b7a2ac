"""What a CPU computes twice has the same bits, in several threads too."""

from collections.abc import Iterator

import pytest
import torch

from gpu_runtime.training.cpu.process import same_bits_keep


@pytest.fixture
def of_a_rank() -> Iterator[None]:
    """As in the process of a rank, with two threads; afterwards as before."""
    threads, fills = torch.get_num_threads(), torch.utils.deterministic.fill_uninitialized_memory
    torch.set_num_threads(2)
    same_bits_keep()
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = fills
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("of_a_rank")
def test_the_gradient_of_what_is_read_by_index_has_the_same_bits_each_time() -> None:
    """As the biases of experts are. Of 40 passes in two threads some 20 differ otherwise."""
    generator = torch.Generator().manual_seed(1)
    biases_EH = torch.randn(4, 512, generator=generator, requires_grad=True)
    expert_N = torch.randint(0, 4, (512,), generator=generator)
    factors_NH = torch.randn(512, 512, generator=generator)
    found = set()
    for _ in range(40):
        biases_EH.grad = None
        (biases_EH[expert_N] * factors_NH).sum().backward()
        assert biases_EH.grad is not None
        found.add(biases_EH.grad.numpy().tobytes())
    assert len(found) == 1
