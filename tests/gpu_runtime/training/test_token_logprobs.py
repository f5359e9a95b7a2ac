"""Log-probabilities computed by blocks on a CPU: torch's own values and gradients, in whatever
blocks.
"""

import pytest
import torch

from gpu_runtime.training.cpu import token_logprobs
from gpu_runtime.training.cpu.token_logprobs import TokenLogprobs
from gpu_runtime.training.policy import FORBIDDEN

POSITIONS, VOCABULARY = 7, 11


def drawn(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, targets and temperatures."""
    generator = torch.Generator().manual_seed(5)
    logits_KV = torch.randn(POSITIONS, VOCABULARY, dtype=dtype, generator=generator)
    target_K = torch.randint(VOCABULARY, (POSITIONS,), generator=generator)
    return logits_KV.requires_grad_(), target_K, torch.linspace(0.5, 2, POSITIONS, dtype=dtype)


def plain(
    logits_KV: torch.Tensor, target_K: torch.Tensor, temperature_K: torch.Tensor | None
) -> torch.Tensor:
    z_KV = logits_KV if temperature_K is None else logits_KV / temperature_K[:, None]
    return z_KV.log_softmax(dim=1).gather(1, target_K[:, None])[:, 0]


@pytest.mark.parametrize(
    "block", [1, 2 * VOCABULARY, 3 * VOCABULARY + 1, 1 << 18], ids=lambda each: f"block {each}"
)
@pytest.mark.parametrize("has_temperatures", [False, True])
def test_values_and_gradients_are_those_of_log_softmax(monkeypatch, block, has_temperatures):
    monkeypatch.setattr(token_logprobs, "BLOCK", block)
    logits_KV, target_K, temperature_K = drawn()
    arguments = (target_K, temperature_K if has_temperatures else None)
    expected_K, found_K = plain(logits_KV, *arguments), TokenLogprobs.apply(logits_KV, *arguments)
    torch.testing.assert_close(found_K, expected_K, rtol=0, atol=1e-14)
    weights_K = torch.linspace(-2, 3, POSITIONS, dtype=torch.float64)
    (expected,) = torch.autograd.grad(expected_K, logits_KV, weights_K)
    (found,) = torch.autograd.grad(found_K, logits_KV, weights_K)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    assert torch.autograd.gradcheck(
        lambda logits: TokenLogprobs.apply(logits, *arguments), logits_KV
    )


def test_in_float32_a_large_vocabulary_loses_no_more_than_torch_itself():
    generator = torch.Generator().manual_seed(6)
    logits_KV = 8 * torch.randn(40, 50_000, generator=generator)
    target_K = torch.randint(50_000, (40,), generator=generator)
    exact_K = plain(logits_KV.double(), target_K, None)
    ours = (TokenLogprobs.apply(logits_KV, target_K, None) - exact_K).abs().max()
    assert ours < 2 * (plain(logits_KV, target_K, None) - exact_K).abs().max() + 1e-6


def test_a_forbidden_token_has_probability_0_and_a_gradient_of_0():
    logits_KV, target_K, temperature_K = drawn(torch.float32)
    forbidden_KV = torch.zeros(POSITIONS, VOCABULARY, dtype=torch.bool)
    forbidden_KV[:, ::2] = True
    forbidden_KV.scatter_(1, target_K[:, None], False)
    bound_KV = logits_KV.masked_fill(forbidden_KV, FORBIDDEN)
    logprobs_K = TokenLogprobs.apply(bound_KV, target_K, temperature_K)
    (gradient,) = torch.autograd.grad(logprobs_K.sum(), bound_KV)
    assert logprobs_K.isfinite().all()
    assert (gradient[forbidden_KV] == 0).all()
    assert gradient[~forbidden_KV].abs().max() > 0


def test_no_position_has_no_log_probability():
    logits_KV = torch.empty(0, VOCABULARY, requires_grad=True)
    logprobs_K = TokenLogprobs.apply(logits_KV, torch.empty(0, dtype=torch.long), None)
    logprobs_K.sum().backward()
    assert logprobs_K.shape == (0,) and logits_KV.grad.shape == (0, VOCABULARY)
