"""A gap between engine and trainer refuses a step where the usual token shows it, beyond what
rounding explains.
"""

import math

import pytest

from gpu_runtime.errors import EngineMismatch, EngineTrainerMismatch
from gpu_runtime.loop.logprob_mismatch import (
    BOUNDS,
    EngineGaps,
    MismatchCount,
    mismatch_refusal,
)
from gpu_runtime.loop.sample import Sample
from support.trained_batches import batch, call, episode


def sample(*gaps: float, **fields) -> tuple[Sample, list[float]]:
    """A sample whose tokens after the first are trained, and the trainer's log-probabilities of
    it.
    """
    engine = (0.0, *[-1.0] * len(gaps))
    ids, mask = tuple(range(len(engine))), (0, *[1] * len(gaps))
    trainer = [value + gap for value, gap in zip(engine, (0.0, *gaps), strict=True)]
    return Sample(ids, mask, engine, 1.0, **fields), trainer


def refusal(dtype: str, *drawn: tuple[Sample, list[float]], staleness: int = 0) -> str | None:
    gaps = EngineGaps.of(*zip(*drawn, strict=True))
    return mismatch_refusal(gaps.kl, gaps, dtype, staleness)


def gap_of(kl: float) -> float:
    """To a relative error of a hundredth: the KL of a small gap is half its square."""
    return math.sqrt(2 * kl)


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-6), ("bfloat16", 1e-2)])
def test_a_gap_beyond_the_bound_is_refused_with_both_numbers(dtype, bound):
    assert refusal(dtype, sample(*[gap_of(bound * 0.9)] * 8)) is None
    found = refusal(dtype, sample(*[gap_of(bound * 1.2)] * 8))
    assert "KL of" in found and f"explains {bound:g}" in found


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("gap", [5.0, -5.0, 900.0, math.inf])
def test_one_token_of_ten_thousand_that_is_far_off_refuses_nothing(dtype, gap):
    assert refusal(dtype, sample(*[1e-5] * 9999, gap)) is None
    assert refusal(dtype, sample(*[1e-5] * 63, gap)) is None, "nor one of a short answer"


@pytest.mark.parametrize("dtype", BOUNDS)
def test_weights_of_another_step_refuse_though_no_token_is_far_off(dtype):
    assert refusal(dtype, sample(*[0.3, -0.2, 0.0, 0.4] * 50))


def test_rounding_counts_for_more_at_a_low_temperature():
    warm = sample(*[gap_of(0.02)] * 8)
    assert refusal("bfloat16", warm)
    assert (
        refusal("bfloat16", sample(*[gap_of(0.02)] * 8, temperatures_T=(1.0, *[0.5] * 8))) is None
    )


def test_one_cold_token_among_many_hides_no_gap():
    cold = sample(gap_of(0.02), temperatures_T=(1.0, 0.1))
    assert refusal("bfloat16", *[sample(gap_of(0.02))] * 999, cold)


def test_stale_tokens_and_steps_without_tokens_prove_nothing():
    assert refusal("float32", sample(*[1.0] * 8), staleness=1) is None
    assert refusal("float32", sample(*[1.0] * 8, allowed_T=(None, *[b"set"] * 8))) is None, (
        "a grammar's gap"
    )
    assert refusal("float32", sample(*[1.0] * 8))


def test_tokens_beside_those_of_a_grammar_are_compared():
    drawn = sample(5.0, 0.1, 0.2, 5.0, allowed_T=(None, b"set", None, None, b"set"))
    assert EngineGaps.of(*zip(drawn, strict=True)).gap_K == pytest.approx([0.1, 0.2])


def test_a_batch_with_a_token_from_before_the_new_weights_is_no_second_proof():
    count, refusal = MismatchCount(), EngineMismatch("they differ", 5.0)
    before, after = (call(name, [1], [2], begun_at=at) for name, at in (("a", 1.0), ("b", 3.0)))
    mixed, later = (batch([episode(1, 1.0, *calls)]) for calls in ((before, after), (after,)))
    assert count.needs_weights(mixed, refusal)
    count.handed_over(2.0)
    assert not count.needs_weights(mixed, refusal)
    with pytest.raises(EngineTrainerMismatch, match="after the engine was given the weights"):
        count.needs_weights(later, refusal)


def test_the_metrics_tell_quantiles_and_where_the_gap_is():
    gaps = [0.0, 0.1, 0.2, 2.0]
    found = EngineGaps.of(*zip(sample(*gaps), strict=True)).metrics()
    assert found["engine_gap_mean"] == pytest.approx(sum(gaps) / 4) and found[
        "engine_gap_max"
    ] == pytest.approx(2.0)
    assert found["engine_gap_p50"] == pytest.approx(0.15) and found["engine_gap_far"] == 0.25
    assert found["engine_gap_by_position"] == pytest.approx(gaps)
    assert found["engine_gap_by_probability"] == [None, None, pytest.approx(sum(gaps) / 4), None], (
        "exp(-1) = 0.37"
    )
    assert EngineGaps.of([], []).metrics() == {}
