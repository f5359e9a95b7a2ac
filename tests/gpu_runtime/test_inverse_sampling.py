"""Tokens drawn by the inverse of the distribution function: the distribution itself, at its edges
too.
"""

import math
from types import SimpleNamespace

import pytest
import torch

from gpu_runtime.engine.cpu.inverse_sampling import BLOCK, inverse_draw, sampling_install

NONE = -torch.inf


def expected(logprobs_BV: torch.Tensor, points_B: torch.Tensor) -> torch.Tensor:
    """By one sum over the whole vocabulary."""
    until_BV = logprobs_BV.double().exp().cumsum(-1)
    return torch.searchsorted(until_BV, points_B[:, None] * until_BV[:, -1:], right=True)[:, 0]


@pytest.mark.parametrize("vocabulary", [3, BLOCK, BLOCK + 1, 7 * BLOCK, 5000])
def test_a_point_gives_the_id_in_whose_interval_it_falls(vocabulary):
    generator = torch.Generator().manual_seed(vocabulary)
    logprobs_BV = (3 * torch.randn(400, vocabulary, generator=generator)).log_softmax(-1)
    points_B = torch.rand(400, dtype=torch.float64, generator=generator)
    before = logprobs_BV.clone()
    ids_B, expected_B = inverse_draw(logprobs_BV, points_B), expected(logprobs_BV, points_B)
    # where a point is within float32's rounding of an edge
    assert (ids_B == expected_B).float().mean() > 0.98
    assert torch.equal(logprobs_BV, before)


def test_ids_are_drawn_as_often_as_their_probabilities_say():
    probabilities_V = torch.tensor([0.5, 0.25, 0.125, 0.0, 0.125])
    count = 40_000
    points_B = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ids_B = inverse_draw(probabilities_V.log().expand(count, -1), points_B)
    drawn_V = torch.bincount(ids_B, minlength=5)
    assert drawn_V[3] == 0
    for probability, drawn in zip(probabilities_V.tolist(), drawn_V.tolist(), strict=True):
        assert abs(drawn - count * probability) <= 5 * math.sqrt(count * probability)


@pytest.mark.parametrize("point", [0.0, 0.5, 1 - 2**-53], ids=["first", "middle", "last"])
@pytest.mark.parametrize("only", [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK - 2, 3 * BLOCK - 1])
def test_an_id_of_probability_0_is_never_drawn_whatever_the_point(point, only):
    logprobs_V = torch.full((3 * BLOCK,), NONE)
    logprobs_V[only] = 0.0
    assert inverse_draw(logprobs_V[None], torch.tensor([point], dtype=torch.float64)).tolist() == [
        only
    ]
    logprobs_V[[only, 5]] = torch.tensor(0.5).log()
    assert inverse_draw(logprobs_V[None], torch.tensor([point], dtype=torch.float64)).item() in (
        only,
        5,
    )


def test_a_row_of_nan_has_an_id_of_the_vocabulary_and_disturbs_no_other_row():
    logprobs_BV = torch.full((3, BLOCK + 100), NONE)
    logprobs_BV[:, 300] = 0.0
    logprobs_BV[1] = torch.nan
    ids = inverse_draw(logprobs_BV, torch.full((3,), 0.5, dtype=torch.float64)).tolist()
    assert ids[0] == ids[2] == 300
    assert 0 <= ids[1] < BLOCK + 100


def drawing() -> SimpleNamespace:
    """A worker's runner, as far as the sampler is asked of it."""
    sampler = SimpleNamespace(
        logprobs_mode="processed_logprobs", use_fp64_gumbel=False, forward=None
    )
    runner = SimpleNamespace(sampler=SimpleNamespace(topk_topp_sampler=sampler))
    sampling_install(runner)
    return sampler


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_seed_gives_the_same_ids_in_whatever_batch_and_row():
    draw, logits_V = drawing().forward, torch.zeros(1000)
    found = []
    for rows, row in ((1, 0), (4, 2), (9, 8)):
        generators = {row: torch.Generator().manual_seed(7)}
        ids = [draw(logits_V.repeat(rows, 1), generators, None, None)[0] for _ in range(3)]
        found.append([each[row].item() for each in ids])
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_top_k_bounds_what_is_drawn_and_the_log_probabilities_are_of_what_was_drawn_from():
    draw, logits_BV = drawing().forward, torch.arange(600.0).repeat(200, 1) / 1000
    ids_B, logprobs_BV = draw(logits_BV, {}, torch.full((200,), 2), None)
    assert set(ids_B.tolist()) == {598, 599}
    assert logprobs_BV.exp().sum(-1).allclose(torch.ones(200))
    assert logprobs_BV[0].isfinite().sum() == 2


def test_another_kind_of_log_probabilities_leaves_the_sampler_as_it_is():
    sampler = SimpleNamespace(
        logprobs_mode="raw_logprobs", use_fp64_gumbel=False, forward="its own"
    )
    sampling_install(SimpleNamespace(sampler=SimpleNamespace(topk_topp_sampler=sampler)))
    assert sampler.forward == "its own"
