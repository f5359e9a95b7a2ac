"""Weights in the file of a state are those that the trainer hands over."""

from pathlib import Path

import pytest
import torch

from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.ranks import TrainerRanks
from gpu_runtime.weights.shared_memory import state_list
from support.published_weights import published_weights
from support.rank_steps import gradient, optim_step
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine
SAMPLES = [Sample((5, 9, 30, 41, 7), (0, 0, 1, 1, 1), (0.0, 0.0, -4.5, -4.5, -4.5), advantage=1.0)]
FILE = "weights.safetensors"


@pytest.mark.parametrize(
    "options",
    [
        {"trainer_ranks": 2},
        {"dtype": "bfloat16"},
        pytest.param({"zero_stage": 1}, marks=pytest.mark.nightly),
    ],
)
async def test_what_an_engine_takes_from_a_state_has_the_bits_of_a_hand_over(
    tmp_path: Path, options: dict
) -> None:
    state = tmp_path / "state-00000001"
    trainer = TrainerRanks(
        str(tiny_model_make(tmp_path / "model")),
        SessionConfig(learning_rate=1e-3, **options),
        "cpu",
    )
    try:
        await gradient(trainer, SAMPLES)
        await optim_step(trainer, 1)
        state.mkdir()
        await trainer.save_state(state)
        await trainer.publish(tmp_path / "handover")
        handed_over = published_weights(tmp_path / "handover")
        state_list(state / FILE, tmp_path / "listed")
        listed = published_weights(tmp_path / "listed")
        assert listed.keys() == handed_over.keys() and len(listed) > 10
        assert all(torch.equal(listed[name], handed_over[name]) for name in listed)
    finally:
        await trainer.close()
