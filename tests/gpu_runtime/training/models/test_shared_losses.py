"""The managed loop and the Tinker primitives compute their losses by the same code: equal inputs
give equal bits.

What the loop calls a scale of a token (``token_scales``) is the primitive's ``weights``.
"""

import pytest
import torch

from gpu_runtime.loop.data import token_scales
from gpu_runtime.training.losses import LossInputs, loss_tokens
from gpu_runtime.training.objective.row_loss import LoopInputs, policy_loss
from support.model_data import SHARED
from support.plain_losses import OWN_OPTIONS, settings_of
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import CLIENT_LOSSES, CLIPPED_LOSSES

SAMPLES = torch.tensor([0] * 5 + [1] * 9 + [2] * 3)


@pytest.mark.parametrize("name", SHARED)
def test_a_loss_of_the_loop_is_that_of_the_primitive_to_the_bit(name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    old_K = -3 - torch.rand(len(SAMPLES), generator=generator)
    moved_K = old_K + 0.4 * torch.randn(len(SAMPLES), generator=generator)
    advantages_K = torch.randn(3, generator=generator)[SAMPLES]
    options = {"clip_low": 0.1, "clip_high": 0.2} if name in CLIPPED_LOSSES else {}
    config = SessionConfig(
        loss=name,
        epochs=2,
        engine_correction={"weight": "none", "mask": "none"},
        **options | OWN_OPTIONS.get(name, {}),
    )
    settings = settings_of(config)
    assert settings.keys() == CLIENT_LOSSES[SHARED[name]].settings.keys(), (
        "say in settings_of of tests/support/plain_losses.py which option is which setting"
    )
    lengths = torch.bincount(SAMPLES).tolist()
    scales_K = torch.tensor(token_scales(name, lengths, [0.5, 1.0, 0.5], config.max_tokens))[
        SAMPLES
    ]

    loop_K = moved_K.clone().requires_grad_()
    inputs = LoopInputs(old_K, advantages_K, SAMPLES, scales_K, before_K=old_K)
    of_loop = (policy_loss(config, inputs, loop_K) * scales_K).sum()
    of_loop.backward()
    primitive_K = moved_K.clone().requires_grad_()
    tensors = {"logprobs": old_K, "advantages": advantages_K, "weights": scales_K}
    of_primitive = loss_tokens(
        SHARED[name], LossInputs(primitive_K, tensors, SAMPLES, settings)
    ).sum()
    of_primitive.backward()

    assert of_loop.item() == of_primitive.item() != 0.0
    assert torch.equal(loop_K.grad, primitive_K.grad) and bool(loop_K.grad.any())
