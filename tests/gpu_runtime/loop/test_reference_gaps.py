"""The KL term in a reward: summed over an episode's trained tokens, and decided by none of them."""

import math

import numpy as np
import pytest
import torch

from gpu_runtime.loop.batching import batch_samples
from gpu_runtime.loop.reference_gaps import FARTHEST_TOKEN, left_out, reference_gaps
from gpu_runtime.training.objective import engine_correction
from support.trained_batches import batch, call, episode
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.engine_correction import EngineCorrection

# Two calls that are two timelines; the engine's log-probabilities of an answer are -0.5, -1.5, ...
EPISODE = episode(1, 1.0, call("a", [1], [2, 3, 4, 5]), call("b", [9], [8]))
SAMPLES = batch_samples(batch([EPISODE]), SessionConfig())
ENGINE = [sample.logprobs_T for sample in SAMPLES]
REFERENCE = [[0.0, -1.0, -2.0, -3.0, -4.0], [0.0, -1.0]]  # half a nat below it at each token


def gap(before, reference=REFERENCE, **fields) -> float:
    correction = EngineCorrection(**fields)
    (found,) = reference_gaps(batch([EPISODE]), SAMPLES, before, reference, correction).values()
    return found


def poisoned(values, by: float) -> list[list[float]]:
    """The third token of the first answer, moved."""
    first, *others = map(list, values)
    first[3] += by
    return [first, *others]


def test_an_episode_has_the_sum_over_all_of_its_trained_tokens():
    assert gap(ENGINE) == pytest.approx(2.5)


@pytest.mark.parametrize("nats", [5.0, -5.0, 40.0, -math.inf])
def test_a_token_whose_log_probability_the_engine_has_wrong_counts_nothing(nats):
    """Trainer and reference agree about it, and are that far from the engine."""
    assert gap(poisoned(ENGINE, nats), poisoned(REFERENCE, nats)) == pytest.approx(2.0)


def test_the_mask_is_that_of_the_session():
    off = poisoned(ENGINE, 5.0), poisoned(REFERENCE, 5.0)
    assert gap(*off, mask="none") == pytest.approx(2.5 - 5.0)
    assert gap(*off, mask="none", veto=0.01) == pytest.approx(0.5), "the other timeline stays"


@pytest.mark.parametrize("nats", [-30.0, 30.0, -math.inf])
def test_a_token_that_is_far_from_the_reference_counts_up_to_a_bound(nats):
    expected = 2.0 + math.copysign(FARTHEST_TOKEN, -nats)
    assert gap(ENGINE, poisoned(REFERENCE, nats)) == pytest.approx(expected)


@pytest.mark.parametrize("level", ["none", "token", "sequence", "geometric"])
@pytest.mark.parametrize("veto", [None, 0.2])
@pytest.mark.parametrize("low, high", [(0.7, 1.5), (None, 1.5), (0.7, None)])
def test_what_is_left_out_is_what_the_loss_leaves_out(level, veto, low, high):
    fields = {"mask": level, "veto": veto}
    if level != "none":
        fields |= {"mask_low": low, "mask_high": high}
    correction, random = EngineCorrection(**fields), np.random.default_rng(0)
    for scale in (5e-5, 0.3, 1.0):
        gaps = [random.normal(0, scale, size) for size in (1, 3, 8)]
        sample_K = torch.arange(3).repeat_interleave(torch.tensor([1, 3, 8]))
        policy_K = torch.from_numpy(np.concatenate(gaps))
        expected = engine_correction.left_out(
            correction, policy_K, torch.zeros_like(policy_K), sample_K
        )
        found = np.concatenate([left_out(correction, gap_K) for gap_K in gaps])
        assert found.tolist() == expected.tolist()
