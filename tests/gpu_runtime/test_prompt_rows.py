"""Draws at the places of a prompt have the shares of the distribution that they are of."""

import numpy as np
import pytest
import torch

from gpu_runtime.engine.prompt_rows import PIECE, draws

N = 20_000


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_draws_have_the_shares_of_the_tempered_distribution(temperature: float) -> None:
    scores = torch.tensor([[0.5, 0.0, 0.3, 0.2], [0.1, 0.6, 0.3, 0.0]]).log()
    uniform = torch.from_numpy(np.random.default_rng(3).random((2, N)))
    drawn = draws(scores, uniform, temperature)
    for row in range(2):
        wanted = (scores[row].double() / temperature).softmax(0)
        shares = torch.bincount(drawn[row], minlength=4) / N
        assert torch.allclose(shares.double(), wanted, atol=4 * (0.25 / N) ** 0.5)
        assert not shares[wanted == 0].any(), "what has no probability is not drawn"


def test_pieces_of_a_long_prompt_are_one_prompt() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(2 * PIECE + 5, 9, generator=generator).log_softmax(1)
    uniform = torch.rand(len(scores), 3, generator=generator, dtype=torch.float64)
    whole = draws(scores, uniform, 1.0)
    assert all(
        torch.equal(draws(scores[row : row + 1], uniform[row : row + 1], 1.0)[0], whole[row])
        for row in range(len(scores))
    )
    assert torch.equal(draws(scores, uniform, 0.0), scores.argmax(1, keepdim=True).expand(-1, 3))
