"""Tokens sampled under a grammar: trained where it left the choice, left out where it chose; never an alarm."""

import dataclasses

import pytest
import torch

from gpu_runtime.interfaces import Sample
from gpu_runtime.training.batching import batch_samples
from gpu_runtime.training.losses import FREE_MASS, free_tokens
from support.rank_probe import gradients, in_a_rank
from support.tiny_model import tiny_model_make
from support.trained_batches import batch, call, episode
from tinkerscript.wire.config import SessionConfig

CONFIG = SessionConfig(grad_clip=1e9, grad_norm_limit=1e9)
IDS = (5, 9, 30, 41, 7, 12)


def test_a_token_is_trained_iff_the_grammar_left_it_its_mass_and_an_alternative():
    """By enumeration: six tokens with known probabilities, and sets of them that a grammar allows."""
    logprobs_V = torch.log_softmax(torch.tensor([4.0, 2.0, 1.0, 0.0, -4.0, -6.0]), dim=0)
    for allowed, is_kept in (({0, 1, 2, 3}, True), ({0, 1, 2, 3, 4, 5}, True), ({1, 2}, False), ({0}, False)):
        mass = logprobs_V[sorted(allowed)].exp().sum()
        token = min(allowed)
        engine_K = (logprobs_V[token] - mass.log())[None]
        assert (mass >= FREE_MASS).item() == is_kept or len(allowed) == 1
        assert free_tokens(logprobs_V[token][None], engine_K, torch.tensor([True])).item() == is_kept
        assert free_tokens(logprobs_V[token][None], engine_K, torch.tensor([False])).item(), "no grammar"


def test_an_only_choice_teaches_nothing_however_likely_it_was():
    assert not free_tokens(torch.tensor([-1e-4]), torch.tensor([0.0]), torch.tensor([True])).item()


def test_calls_that_merged_keep_their_own_marks():
    free, narrowed = call("a", [1], [2, 3]), call("b", [1, 2, 3, 4], [5], grammar=True)
    members = [episode(1, 1.0, free, narrowed), episode(2, 0.0, call("c", [1], [9]))]
    merged, plain = batch_samples(batch(members), SessionConfig())
    assert merged.narrowed_T == (0, 0, 0, 0, 1) and plain.narrowed_T is None


@pytest.mark.engine
def test_what_a_grammar_chose_changes_neither_gradient_nor_alarm(tmp_path):
    """Against the same sample without its chosen tokens. Untrained weights give each token about -4.6."""
    model = str(tiny_model_make(tmp_path))
    logprobs = (0.0, 0.0, -4.6, -4.6, -0.7, 0.0)  # two free tokens, one among two, one without an alternative
    sample = Sample(IDS, (0, 0, 1, 1, 1, 1), logprobs, advantage=1.0)
    bound = dataclasses.replace(sample, narrowed_T=(0, 0, 0, 0, 1, 1))
    without = dataclasses.replace(sample, mask_T=(0, 0, 1, 1, 0, 0), logprobs_T=(0.0, 0.0, -4.6, -4.6, 0.0, 0.0))
    runs = [(CONFIG, [each]) for each in (sample, bound, without)]
    (alarmed, *_), (metrics, gradient, _), (expected, other, _) = in_a_rank(gradients, model, runs)
    assert alarmed["kl_engine"] > 1, "what the trainer saw before: a grammar that looks like a broken engine"
    assert metrics["kl_engine"] == pytest.approx(expected["kl_engine"], rel=1e-5)
    assert (metrics["tokens_trained"], metrics["clip_fraction"]) == (2, expected["clip_fraction"])
    # The mean is over the sample's four tokens in the one and two in the other.
    assert all(torch.allclose(2 * gradient[name], other[name], rtol=1e-4, atol=1e-7) for name in other)
