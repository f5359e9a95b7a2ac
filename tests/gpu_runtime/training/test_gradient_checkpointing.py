"""``gradient_checkpointing`` computes layers twice and saves less for the backward pass; the step stays the same."""

import random

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from gpu_runtime.interfaces import Sample
from support.rank_probe import computation, in_a_rank
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine


def one_row() -> list[Sample]:
    rng = random.Random(1)
    ids = tuple(rng.randrange(3, 90) for _ in range(200))
    return [Sample(ids, (0,) * 100 + (1,) * 100, (0.0,) * 100 + (-4.5,) * 100, advantage=1.0)]


def model_with_dropout(folder):
    """GPT-2, whose configuration asks for dropout of a tenth at four places when a model is in train mode."""
    model = tiny_model_make(folder)
    (folder / "model.safetensors").unlink()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        GPT2LMHeadModel(
            GPT2Config(vocab_size=98, n_positions=256, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1)
        ).save_pretrained(folder)
    return model


@pytest.mark.parametrize("make", [tiny_model_make, model_with_dropout])
def test_layers_are_computed_twice_and_less_is_saved_and_the_step_is_the_same(tmp_path, make):
    model = str(make(tmp_path / "model"))
    options = [{}, {"gradient_checkpointing": True}, {"gradient_checkpointing": True, "zero_stage": 3}]
    runs = [(SessionConfig(learning_rate=1e-3, **each), one_row()) for each in options]
    plain, recomputed, sharded = in_a_rank(computation, model, runs)
    assert [calls for calls, *_ in (plain, recomputed, sharded)] == [1, 2, 2]
    assert recomputed[1] < 0.5 * plain[1], "the activations inside of layers are not saved"
    assert recomputed[2] == plain[2] and sharded[2]["loss"] == plain[2]["loss"]
    assert all(torch.equal(recomputed[3][name], weight) for name, weight in plain[3].items())
