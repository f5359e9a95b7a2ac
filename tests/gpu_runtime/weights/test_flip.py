"""A rehearsal's change of weights: each bit comes back, and one stale weight of any layer shows."""

import copy
import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from gpu_runtime.loading.rehearsal import probe_prompts, stale_of
from gpu_runtime.loop.logprob_mismatch import BOUNDS
from gpu_runtime.training.losses import kl_k3
from gpu_runtime.weights.flip import each_unflipped, weights_digest, weights_flip
from support.model_families import family_make

CPU = torch.device("cpu")
# q (k + b): where no rotation stands between, the bias of a key adds the same to every score of a
# query.
WITHOUT_EFFECT = {"OPT": ("k_proj.bias",)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_second_flip_restores_each_bit_and_a_first_changes_every_tensor(dtype):
    smallest, largest = 1e-45 if dtype == torch.float32 else 1e-40, torch.finfo(dtype).max
    special = [
        0.0,
        0.0,
        -0.0,
        -0.0,
        smallest,
        smallest,
        largest,
        -largest,
        1.0,
        1.0,
        float("inf"),
        float("nan"),
    ]
    tensors = [
        torch.tensor(special, dtype=dtype),
        torch.zeros(5, dtype=dtype),
        torch.ones(3, dtype=dtype),
    ]
    whole = torch.int32 if dtype == torch.float32 else torch.int16
    tensors.append(
        torch.arange(-500, 500, dtype=torch.int32).mul(7919 * 65).view(torch.float32).to(dtype)
    )
    before, digest = [each.clone() for each in tensors], weights_digest(tensors, CPU)
    weights_flip(tensors)
    assert all(
        not torch.equal(a.view(whole), b.view(whole)) for a, b in zip(before, tensors, strict=True)
    )
    assert not torch.equal(weights_digest(tensors, CPU), digest)
    weights_flip(tensors)
    assert all(
        torch.equal(a.view(whole), b.view(whole)) for a, b in zip(before, tensors, strict=True)
    )
    assert torch.equal(weights_digest(tensors, CPU), digest)


@torch.no_grad()
@pytest.mark.parametrize("name", ["Qwen3", "Gemma 3", "OLMo 2", "OPT"])
def test_any_single_weight_that_stays_as_it_was_is_a_gap_beyond_the_bound(tmp_path, name):
    """Families that normalise what a layer gives, or that have biases of zeros: a factor for all
    would hide both.
    """
    folder = family_make(tmp_path, name)
    prompts = torch.tensor(probe_prompts(json.loads((folder / "config.json").read_text()), 128)[:1])
    base = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    flipped = copy.deepcopy(base)
    weights_flip(flipped.parameters())
    trainer_BTV = logprobs(flipped, prompts)
    stale = dict(base.named_parameters())
    missed = []
    for weight, parameter in flipped.named_parameters():
        kept, parameter.data = parameter.data, stale[weight].data
        engine_BTV = logprobs(flipped, prompts)
        parameter.data = kept
        # Over all tokens, as the engine samples them, instead of over the few that a probe draws.
        gap = (engine_BTV.exp() * kl_k3(engine_BTV, trainer_BTV)).sum(-1).mean().item()
        if not gap > BOUNDS["float32"] and not weight.endswith(WITHOUT_EFFECT.get(name, ())):
            missed.append(weight)
    assert not missed


def tokens(model, prompts) -> list[float]:
    """Log-probabilities of the prompts' own tokens."""
    scores = model(prompts, use_cache=False).logits[:, :-1].float().log_softmax(-1)
    return scores.gather(-1, prompts[:, 1:, None]).flatten().tolist()


def logprobs(model, prompts) -> torch.Tensor:
    return model(prompts, use_cache=False).logits[:, -8:].log_softmax(-1)


@torch.no_grad()
@pytest.mark.parametrize("name", ["Llama", "Qwen3"])
def test_in_bfloat16_the_one_stale_weight_is_named_and_none_where_all_are_new(tmp_path, name):
    """The engine is the same model computed in float32, so that rounding is between them as it is
    between kernels.
    """
    folder = family_make(tmp_path, name)
    fields = json.loads((folder / "config.json").read_text())
    prompts = torch.tensor(probe_prompts(fields, 128, 32))
    trainer = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="eager"
    )
    base = copy.deepcopy(trainer)
    weights_flip(trainer.parameters())
    named = [(weight, parameter.data) for weight, parameter in trainer.named_parameters()]
    now = tokens(trainer, prompts)
    unflipped = dict(each_unflipped(named, lambda: tokens(trainer, prompts)))
    assert tokens(trainer, prompts) == now, "each was put back"
    engine = copy.deepcopy(trainer).float()  # rounding is the difference
    assert stale_of(tokens(engine, prompts), now, unflipped) is None
    old = dict(base.float().named_parameters())
    found = {}
    for weight, parameter in engine.named_parameters():
        kept, parameter.data = parameter.data, old[weight].data
        found[weight] = stale_of(tokens(engine, prompts), now, unflipped)
        parameter.data = kept
    missed = [
        weight for weight, named in found.items() if named is None or not weight.startswith(named)
    ]
    assert not missed
