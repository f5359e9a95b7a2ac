"""``logprobs_after_step``: a forward pass after the optimizer's step, which leaves no trace in any
weight.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_runtime.loop.logprob_mismatch import BOUNDS
from gpu_runtime.steps.updates import batch_train
from gpu_runtime.training.ranks import TrainerRanks
from support.published_weights import published_weights
from support.rank_batches import batch
from support.rank_steps import logprobs
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine
STEPS = 2


async def trained(
    model: str, folder: Path, **options: Any
) -> tuple[dict[str, torch.Tensor], list[list[list[float]]]]:
    """The weights after the steps, and what was computed after each."""
    config = SessionConfig(learning_rate=1e-3, micro_batch_tokens=64, **options)
    trainer = TrainerRanks(model, config, "cpu")
    try:
        after = []
        for step in range(1, STEPS + 1):
            done = await batch_train(trainer, config, batch(step), step, 0)
            after.append([list(each) for each in done.after_ST])
            if done.after_ST:
                assert after[-1] == await logprobs(trainer, batch(step)), (
                    "those of the weights that the step left"
                )
        await trainer.publish(folder)
        return {name: tensor.clone() for name, tensor in published_weights(folder).items()}, after
    finally:
        await trainer.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"zero_stage": 3, "trainer_ranks": 2, "kl_coef": 0.1},
        {"minibatches": 2, "epochs": 2, "gradient_checkpointing": True},
        {"lora_rank": 4, "dtype": "bfloat16"},
        pytest.param({"trainer_ranks": 2, "sequence_parallel": True}, marks=pytest.mark.nightly),
    ],
    ids=str,
)
async def test_weights_are_the_same_bits_with_log_probabilities_after_each_step_and_without(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # the log-probabilities of these samples are made by hand, and no engine's
    for dtype in ("float32", "bfloat16"):
        monkeypatch.setitem(BOUNDS, dtype, 10.0)
    model = str(tiny_model_make(tmp_path / "tiny"))
    plain, none = await trained(model, tmp_path / "plain", **options)
    weights, after = await trained(model, tmp_path / "asked", logprobs_after_step=True, **options)
    assert weights.keys() == plain.keys() and all(
        torch.equal(weights[name], plain[name]) for name in plain
    )
    assert none == [[]] * STEPS and all(any(values) for of_step in after for values in of_step)
