"""``gradient_checkpointing`` computes layers twice and saves less for the backward pass; the step
stays the same.
"""

import random

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.ranks import TrainerRanks
from support.rank_probe import computation, in_a_rank, moved_to_the_host
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine


def one_row() -> list[Sample]:
    rng = random.Random(1)
    ids = tuple(rng.randrange(3, 90) for _ in range(200))
    return [Sample(ids, (0,) * 100 + (1,) * 100, (0.0,) * 100 + (-4.5,) * 100, advantage=1.0)]


def model_with_dropout(folder):
    """GPT-2, whose configuration asks for dropout of a tenth at four places when a model is in
    train mode.
    """
    model = tiny_model_make(folder)
    (folder / "model.safetensors").unlink()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=98,
                n_positions=256,
                n_embd=64,
                n_layer=2,
                n_head=2,
                bos_token_id=0,
                eos_token_id=1,
            )
        ).save_pretrained(folder)
    return model


@pytest.mark.parametrize("make", [tiny_model_make, model_with_dropout])
def test_layers_are_computed_twice_and_less_is_saved_and_the_step_is_the_same(tmp_path, make):
    model = str(make(tmp_path / "model"))
    options = [
        {},
        {"gradient_checkpointing": True},
        {"gradient_checkpointing": True, "zero_stage": 3},
    ]
    runs = [(SessionConfig(learning_rate=1e-3, **each), one_row()) for each in options]
    plain, recomputed, sharded = in_a_rank(computation, model, runs)
    assert [calls for calls, *_ in (plain, recomputed, sharded)] == [1, 2, 2]
    assert recomputed[1] < 0.5 * plain[1], "the activations inside of layers are not saved"
    assert recomputed[2] == plain[2] and sharded[2]["loss"] == plain[2]["loss"]
    assert all(torch.equal(recomputed[3][name], weight) for name, weight in plain[3].items())


@pytest.mark.parametrize("stage", [2, 3])
def test_what_layers_save_is_kept_on_the_host_and_the_step_is_the_same(tmp_path, stage: int):
    """The copies are seen on a CPU too, where only this test asks for them."""
    model = str(tiny_model_make(tmp_path / "model"))
    options = {"learning_rate": 1e-3, "gradient_checkpointing": True, "zero_stage": stage}
    configs = [SessionConfig(**options), SessionConfig(**options, offload_activations=True)]
    (moved, weights), (moved_offloaded, weights_offloaded) = in_a_rank(
        moved_to_the_host, model, configs, one_row()
    )
    assert moved == 0 and moved_offloaded == 2 * 199 * 64 * 4, (
        "of two layers the input, without the last token"
    )
    assert all(torch.equal(weights_offloaded[name], weight) for name, weight in weights.items())


def test_offloading_is_refused_where_there_is_no_gpu_and_without_checkpointing(tmp_path):
    config = SessionConfig(gradient_checkpointing=True, offload_activations=True)
    with pytest.raises(PlacementImpossible, match="offload_activations"):
        TrainerRanks(str(tmp_path), config, "cpu")
    with pytest.raises(ValueError, match="only with gradient_checkpointing"):
        SessionConfig(offload_activations=True)
